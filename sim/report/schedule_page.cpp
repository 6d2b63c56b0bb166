// Schedules as a page: zoomable, on a common time scale.
#include <fmt/format.h>

#include <algorithm>

#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "report/pages.hpp"

namespace rehearsal::report {

using namespace page;

Page schedule_page(std::span<const schedule::Evaluation> results, const Asked& asked) {
  const bool several = results.size() > 1;
  std::vector<Drawing> drawings;
  Time until;
  std::size_t most = 0;
  for (const auto& result : results) {
    auto& drawing = drawings.emplace_back(drawing_of(result));
    std::vector<std::size_t> of_row(drawing.rows);
    for (const auto& box : drawing.boxes) until = std::max(until, box.end), most = std::max(most, ++of_row[box.row]);
  }
  Page page;
  page.title = several ? fmt::format("{} schedules on one scale of time", results.size()) : drawings.front().title;
  page.subtitle = several ? "" : drawings.front().subtitle;
  page.made_by = "rehearse " + program_version();
  Table table;
  table.head = {"schedule", "cost", "bubble", "peak memory", "lower bound", "actions"};
  Bars bars;
  bars.unit = Unit::seconds, bars.parts = {"works", "idle"};
  bars.colors = {{66, 122, 214}, {205, 210, 218}};
  const auto at = [](const char* name) { return std::string("/") + name; };
  for (const auto& result : results) {
    const auto& r = result.replay;
    const double peak = *std::max_element(r.peak_memory.begin(), r.peak_memory.end());
    table.rows.push_back(
        {{result.schedule.name},
         {show(r.cost), to_seconds(r.cost), several ? "" : at("cost_s")},
         {fmt::format("{:.2f} %", 100 * r.bubble_rate()), r.bubble_rate(), several ? "" : at("bubble_rate")},
         {fmt::format("{:g}", peak), peak},
         {show(result.lower_bound), to_seconds(result.lower_bound), several ? "" : at("lower_bound_s")},
         {grouped(r.actions), double(r.actions)}});
    const Time busy = *std::max_element(r.busy.begin(), r.busy.end());
    bars.rows.push_back({result.schedule.name, {to_seconds(busy), to_seconds(r.cost - busy)}});
  }
  page.sections.push_back({"In numbers", {{"", std::move(table)}}});
  if (several) page.sections.back().blocks.push_back({"The busiest rank of each", std::move(bars), "bubbles"});
  Section pictures{"Who works when", {}};
  for (std::size_t i = 0; i < drawings.size(); ++i) {
    drawings[i].until = until, drawings[i].most_boxes = most;
    auto title = several ? fmt::format("{} ({})", drawings[i].title, drawings[i].subtitle) : "";
    pictures.blocks.push_back({std::move(title), Timeline{std::move(drawings[i])}, results[i].schedule.name});
  }
  page.sections.push_back(std::move(pictures));
  page.sections.push_back(scenario_section(asked));
  return page;
}

}  // namespace rehearsal::report
