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
  Bars bars;
  bars.unit = Unit::seconds, bars.parts = {"works", "idle"};
  bars.colors = {{66, 122, 214}, {205, 210, 218}};
  for (const auto& result : results) {
    const auto& r = result.replay;
    const Time busy = *std::max_element(r.busy.begin(), r.busy.end());
    bars.rows.push_back({result.schedule.name, {to_seconds(busy), to_seconds(r.cost - busy)}});
  }
  const auto peak = [](const schedule::Evaluation& e) {
    return *std::max_element(e.replay.peak_memory.begin(), e.replay.peak_memory.end());
  };
  auto& numbers = page.sections.emplace_back(Section{"In numbers", {}}).blocks;
  if (several) {
    numbers.push_back({"", report::table(schedule_answer().figure("peak", Unit::none, "peak memory", "", peak), results,
                                         {"schedule", "cost_s", "bubble_rate", "peak", "lower_bound_s", "actions"})});
    numbers.push_back({"The busiest rank of each", std::move(bars), "bubbles"});
  } else {
    const auto answer = schedule_answer();
    const auto json = answer.json(results.front());
    const Showing shown(json, answer.items());
    const double highest = peak(results.front());
    numbers.push_back({"", Facts{{shown.fact("/cost_s"),
                                  shown.fact("/bubble_rate"),
                                  {"peak memory", {show_amount(highest, Unit::none), highest}},
                                  shown.fact("/lower_bound_s"),
                                  shown.fact("/actions")}}});
  }
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
