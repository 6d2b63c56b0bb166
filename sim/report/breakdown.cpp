// Where the time of an iteration goes, by rank: its parts, their colours, and what each is.
#include <fmt/format.h>

#include "page/grid.hpp"
#include "report/run_page.hpp"

namespace rehearsal::report {

using namespace page;

std::vector<Rgb> category_colors() {
  return {{66, 122, 214}, {132, 170, 226}, {214, 110, 80},  {110, 120, 135}, {170, 70, 110}, {120, 94, 170},
          {190, 178, 40}, {200, 60, 60},   {205, 210, 218}, {150, 120, 60},  {60, 140, 190}, {90, 150, 120}};
}

const char* meaning(graph::Category category) {
  switch (category) {
    case graph::Category::compute:
      return "kernels of forward and backward";
    case graph::Category::recompute:
      return "forwards repeated for the backward";
    case graph::Category::tensor_comm:
      return "waits for collectives of tensor groups";
    case graph::Category::pipeline_comm:
      return "waits for messages between stages";
    case graph::Category::data_comm:
      return "waits for collectives over data parallel ranks";
    case graph::Category::optimizer:
      return "updates parameters";
    case graph::Category::host:
      return "waits for the CPU that launches its kernels";
    case graph::Category::contention:
      return "lasts longer because links or memory are shared";
    case graph::Category::bubble:
      return "waits for another rank to compute";
    case graph::Category::context_comm:
      return "waits for collectives of context groups";
    case graph::Category::expert_comm:
      return "waits for dispatch and combine of experts";
    case graph::Category::offload:
      return "waits for copies between tiers, disks and the host's work";
  }
  return "";
}

std::string rank_name(std::uint32_t rank, std::int64_t alike) {
  return fmt::format("rank {}{}", rank, alike > 1 ? fmt::format(" x {}", alike) : "");
}

Bars breakdown_bars(const Result& answer) {
  Bars bars;
  bars.unit = Unit::seconds, bars.colors = category_colors();
  for (std::size_t c = 0; c < graph::kCategories; ++c)
    bars.parts.push_back(graph::name(static_cast<graph::Category>(c)));
  const auto& graph = answer.graph();
  const auto count = std::uint32_t(graph.ranks().size());
  const auto fold = elided_rows(count, kMostBars);
  bars.left_out = fold.hidden;
  for (std::uint32_t r = 0; r < count; ++r) {
    if (fold.hidden && r == fold.first) r += fold.hidden;
    const auto& rank = graph.ranks()[r];
    Bars::Row row{rank_name(rank.job_rank, rank.multiplicity), {}};
    for (const Time part : timeline::breakdown(graph, answer.timeline, RankId(r), answer.lowered->durations))
      row.values.push_back(to_seconds(part));
    bars.rows.push_back(std::move(row));
  }
  return bars;
}

std::string meanings(const Bars& bars) {
  std::string text;
  for (std::size_t c = 0; c < graph::kCategories; ++c) {
    bool some = false;
    for (const auto& row : bars.rows) some = some || row.values[c] > 0;
    const auto category = static_cast<graph::Category>(c);
    if (some) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", graph::name(category), meaning(category));
  }
  return text;
}

}  // namespace rehearsal::report
