// `validate` as a page: prediction and measurement side by side.
#include <fmt/format.h>

#include <algorithm>

#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "report/measured_text.hpp"
#include "report/pages.hpp"

namespace rehearsal::report {

using namespace page;

Page validate_page(const Validation& v, const Asked& asked) {
  const auto& c = v.comparison;
  auto page = run_page(v.measured, asked);
  page.title = "Predicted and measured: " + page.title;
  Section section{"Predicted beside measured", {}};
  Facts facts;
  facts.facts.push_back(
      {"predicted",
       {show(c.iteration.predicted), to_seconds(c.iteration.predicted), "/validate/iteration/predicted_s"}});
  facts.facts.push_back(
      {"measured, median",
       {show(c.iteration.measured), to_seconds(c.iteration.measured), "/validate/iteration/measured_s"},
       iterations_note(c.iterations)});
  facts.facts.push_back(
      {"error of the prediction",
       {signed_share(c.iteration.median_error), c.iteration.median_error, "/validate/iteration/median_error"},
       "negative: the run took longer"});
  section.blocks.push_back({"", std::move(facts)});
  const auto& disturbed = v.measured.timeline.disturbances;
  if (disturbed.empty())
    section.blocks.push_back({"", Paragraph{"No disturbance of the machine was noticed."}});
  else
    section.blocks.push_back({kDisturbed, Entries{disturbed}});
  Table table;
  table.head = {"class of task", "tasks", "predicted", "measured", "error of the sum"};
  Scatter scatter;
  scatter.x = {"measured", Unit::seconds, true}, scatter.y = {"predicted", Unit::seconds, true};
  scatter.slopes = {1, 1.1, 1 / 1.1};
  for (const auto& k : c.classes) {
    table.rows.push_back({{k.name},
                          {grouped(k.tasks), double(k.tasks)},
                          {show(k.of_tasks.predicted), to_seconds(k.of_tasks.predicted)},
                          {show(k.of_tasks.measured), to_seconds(k.of_tasks.measured)},
                          k.of_tasks.compared ? Value{signed_share(k.sum_error), k.sum_error} : Value{"-"}});
    if (k.of_tasks.predicted > Time{} && k.of_tasks.measured > Time{})
      scatter.points.push_back({to_seconds(k.of_tasks.measured), to_seconds(k.of_tasks.predicted), 0,
                                fmt::format("{}: {}", k.name, signed_share(k.sum_error))});
  }
  section.blocks.push_back({"Classes of tasks, summed over an iteration", std::move(scatter), "scatter",
                            "On the line: as predicted. Dashed: 10 % off."});
  section.blocks.push_back({"", std::move(table)});
  page.sections.insert(page.sections.begin(), std::move(section));
  return page;
}

}  // namespace rehearsal::report
