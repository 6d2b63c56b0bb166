// What the ranks work on, as cells for draw_grid: neighbouring tasks of one pass and micro-batch (operators, layers)
// are one cell.
#pragma once
#include <vector>

#include "page/grid.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::report {

// Forward, Again (recomputation), Backward, Input gradient, Weight gradient, Optimizer, and what Data-parallel ranks do
// together.
char letter_of(graph::Pass pass);
// The same where cells are few: what is computed again is part of the backward, and the last two are lower-case (o, c).
char cell_letter_of(graph::Pass pass);

// Rank r of the graph is row r * rows_per_rank + row.
std::vector<page::GridSpan> pipeline_spans(const graph::TaskGraph& graph, const timeline::Timeline& timeline,
                                           std::uint32_t rows_per_rank = 1, std::uint32_t row = 0);

// What the legend says of the lower-case kinds among them.
inline constexpr const char* kPipelineLowerCase = "o optimizer, c gradients";

}  // namespace rehearsal::report
