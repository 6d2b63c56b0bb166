// `run` and `measure` as a page: step time, its breakdown, memory, messages, and the assumptions.
#pragma once
#include <string>
#include <vector>

#include "page/page.hpp"
#include "report/run_report.hpp"

namespace rehearsal::report {

// The request, so that it can be repeated.
struct Asked {
  std::string command;   // "rehearse run x.yaml --set batch.micro=2"
  std::string scenario;  // the text of the file; may be empty
};

// `traced`: the page opens its trace in ui.perfetto.dev, for graphs of up to kMostTraced tasks.
inline constexpr std::uint64_t kMostTraced = 200'000;
page::Page run_page(const Result& answer, const Asked& asked, bool traced = false);

// The last section of a scenario's page.
page::Section scenario_section(const Asked& asked);

// All lanes of all ranks over time. Large jobs show only part of them, and its note says so.
page::Block timed(const Result& answer);

// Breakdown of an iteration by rank, what one of its parts is, and what those of these bars are: "bubble: waits for
// another rank to compute; ...".
page::Bars breakdown_bars(const Result& answer);
const char* meaning(graph::Category category);
std::string meanings(const page::Bars& bars);
std::string rank_name(std::uint32_t rank, std::int64_t alike);  // "rank 0 x 8"
// Colours of graph::Category.
std::vector<page::Rgb> category_colors();

}  // namespace rehearsal::report
