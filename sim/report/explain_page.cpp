// `explain` as a page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "report/pages.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::size_t kMostBarsShown = 24;

Section path(const Showing& shown, const Explanation& e) {
  Bars bars;
  bars.unit = Unit::share, bars.parts = {"of the step"};
  for (const auto& piece : *e.path)
    if (bars.rows.size() < kMostBarsShown && piece.share >= .002) bars.rows.push_back({piece.text, {piece.share}});
  return {"What decides the step",
          {{"Pieces of its critical path", std::move(bars), "critical-path"},
           {"", shown.table("/critical_path", {"text", "share", "time_s"})}}};
}

// One point per part of the machine: its work or traffic, and the time that this alone would take.
Section limits(const Showing& shown, const Explanation& e) {
  Bars bars;
  bars.unit = Unit::share, bars.parts = {"of the step"};
  bars.limit = 1., bars.limit_name = "the step";
  for (const auto& limit : *e.limits) bars.rows.push_back({limit.name, {limit.share}});
  return {"How near the limits are",
          {{"The roofline: what each part would need by itself", std::move(bars), "limits"},
           {"", shown.table("/limits/parts", {"name", "share", "time_s", "amount", "unit", "rate_per_s", "most_on"})}}};
}

Section sensitivities(const Showing& shown, const Explanation& e) {
  const auto& found = *e.sensitivities;
  Section section{"What each number is worth", {}};
  Bars bars;
  bars.unit = Unit::share, bars.parts = {"shorter step when it is a tenth better"};
  const double now = to_seconds(e.prediction->summary.iteration);
  for (const auto& s : found.all)
    if (const double better = to_seconds(s.better.iteration) / now - 1;
        bars.rows.size() < kMostBarsShown && better < -5e-4)
      bars.rows.push_back({s.key, {-better}, s.value});
  if (!bars.rows.empty())
    section.blocks.push_back(
        {"A tenth better", std::move(bars), "sensitivity",
         fmt::format("Shares of all resources, which have a unit of time, sum to {:.2f} %.", 100 * found.sum)});
  section.blocks.push_back({fmt::format("All {} numbers that move the step", found.all.size()),
                            shown.table("/sensitivity", {"key", "value", "iteration_change",
                                                         "worse/iteration_change=a tenth worse", "share"}),
                            "", "", found.all.size() > 12});
  if (!found.missing.empty()) section.blocks.push_back({"What the sum misses", Entries{found.missing}});
  return section;
}

Section advice(const Showing& shown, const Explanation& e) {
  const auto& now = e.prediction->summary;
  Section section{"What to change", {}};
  Scatter scatter;
  scatter.x = {"memory of the fullest GPU", now.abstract ? Unit::none : Unit::bytes, false};
  scatter.y = {"iteration", Unit::seconds, false};
  scatter.series = {"as it is", "one choice changed", "does not fit"};
  scatter.points.push_back({now.abstract ? now.peak.allocated : now.peak.device.value_or(0), to_seconds(now.iteration),
                            0, "as it is", true, "as it is"});
  for (const auto& a : e.advised->all)
    scatter.points.push_back({a.memory, to_seconds(a.iteration), a.fits ? 1u : 2u,
                              fmt::format("{}: {}", fmt::join(a.set, " "), show(a.iteration))});
  section.blocks.push_back({"Every change of one choice, predicted", std::move(scatter), "advice"});
  if (e.chosen.empty())
    section.blocks.push_back({"", Paragraph{"No change of one choice that fits makes the step shorter."}});
  else
    section.blocks.push_back(
        {"Those that make the step shorter",
         shown.table("/advice", {"set", "iteration_s", "iteration_change", "memory_bytes", "fits"})});
  return section;
}

}  // namespace

Page explain_page(const Explanation& e, const Asked& asked) {
  const auto& s = e.prediction->summary;
  const auto json = explain_answer().json(e);
  const Showing shown(json, explain_answer().items());
  Page page;
  page.title = "What decides " + s.name;
  page.subtitle = fmt::format("an iteration takes {}", show(s.iteration));
  page.made_by = "rehearse " + program_version();
  page.sections.push_back({"The step",
                           {{"", Facts{{shown.fact("/iteration_s")}}},
                            {"Where the time goes on each rank", breakdown_bars(*e.prediction), "breakdown"}}});
  if (e.path) page.sections.push_back(path(shown, e));
  if (e.limits && !e.limits->empty()) page.sections.push_back(limits(shown, e));
  if (e.sensitivities) page.sections.push_back(sensitivities(shown, e));
  if (e.advised) page.sections.push_back(advice(shown, e));
  page.sections.push_back(scenario_section(asked));
  return page;
}

}  // namespace rehearsal::report
