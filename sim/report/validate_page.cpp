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
  const auto json = validate_answer().json(v);
  const Showing shown(json, validate_answer().items());
  section.blocks.push_back(
      {"", Facts{{shown.fact("/validate/iteration/predicted_s"),
                  {"measured, median", shown.value("/validate/iteration/measured_s"), iterations_note(c.iterations)},
                  {"error of the prediction", shown.value("/validate/iteration/median_error"),
                   "negative: the run took longer"}}}});
  const auto& disturbed = v.measured.timeline.disturbances;
  if (disturbed.empty())
    section.blocks.push_back({"", Paragraph{"No disturbance of the machine was noticed."}});
  else
    section.blocks.push_back({kDisturbed, Entries{disturbed}});
  Scatter scatter;
  scatter.x = {"measured", Unit::seconds, true}, scatter.y = {"predicted", Unit::seconds, true};
  scatter.slopes = {1, 1.1, 1 / 1.1};
  for (const auto& k : c.classes) {
    if (k.of_tasks.predicted > Time{} && k.of_tasks.measured > Time{})
      scatter.points.push_back({to_seconds(k.of_tasks.measured), to_seconds(k.of_tasks.predicted), 0,
                                fmt::format("{}: {}", k.name, show_amount(k.sum_error, Unit::error))});
  }
  section.blocks.push_back({"Classes of tasks, summed over an iteration", std::move(scatter), "scatter",
                            "On the line: as predicted. Dashed: 10 % off."});
  section.blocks.push_back({"", class_table(shown, v)});
  page.sections.insert(page.sections.begin(), std::move(section));
  return page;
}

}  // namespace rehearsal::report
