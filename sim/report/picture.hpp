// The work of the ranks as cells for draw_grid: adjacent tasks (operators, layers) of one pass and micro-batch form one
// cell.
#pragma once
#include <vector>

#include "page/grid.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::report {

// Forward, Again (recomputation), Backward, Input gradient, Weight gradient, Optimizer, Data-parallel collectives.
char letter_of(graph::Pass pass);
// Likewise of a task on a lane: Tensor, Data, Context and Expert collectives, P messages, M copies between tiers.
char letter_of(graph::Lane lane, graph::Pass pass);
// The same with fewer letters: recomputation counts as backward, and the last two are lower-case (o, c).
char cell_letter_of(graph::Pass pass);

// Rank r of the graph is row r * rows_per_rank + row.
std::vector<page::GridSpan> pipeline_spans(const graph::TaskGraph& graph, const timeline::Timeline& timeline,
                                           std::uint32_t rows_per_rank = 1, std::uint32_t row = 0);

// The legend of the lower-case kinds.
inline constexpr const char* kPipelineLowerCase = "o optimizer, c gradients";

}  // namespace rehearsal::report
