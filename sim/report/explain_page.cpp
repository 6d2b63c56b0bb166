// `explain` as a page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/quantity_text.hpp"
#include "report/pages.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::size_t kMostBarsShown = 24;

Value share(double part, std::string json) { return {show_amount(part, Unit::share), part, std::move(json)}; }

Section path(const Explanation& e) {
  Section section{"What decides the step", {}};
  Bars bars;
  bars.unit = Unit::share, bars.parts = {"of the step"};
  Table table;
  table.head = {"piece of the critical path", "of the step", "time"}, table.words = {true};
  for (std::size_t i = 0; i < e.path->size(); ++i) {
    const auto& piece = (*e.path)[i];
    const auto at = fmt::format("/critical_path/{}", i);
    table.rows.push_back(
        {{piece.text}, share(piece.share, at + "/share"), {show(piece.time), to_seconds(piece.time), at + "/time_s"}});
    if (bars.rows.size() < kMostBarsShown && piece.share >= .002) bars.rows.push_back({piece.text, {piece.share}});
  }
  section.blocks.push_back({"Pieces of its critical path", std::move(bars), "critical-path"});
  section.blocks.push_back({"", std::move(table)});
  return section;
}

// One point per part of the machine: its work or traffic, and the time that this alone would take.
Section limits(const Explanation& e) {
  Section section{"How near the limits are", {}};
  Bars bars;
  bars.unit = Unit::share, bars.parts = {"of the step"};
  bars.limit = 1., bars.limit_name = "the step";
  Table table;
  table.head = {"part of the machine", "of the step", "alone", "amount", "a second", "most on"};
  table.words = {true, false, false, false, false, true};
  for (std::size_t i = 0; i < e.limits->size(); ++i) {
    const auto& limit = (*e.limits)[i];
    const auto at = fmt::format("/limits/parts/{}", i);
    bars.rows.push_back({limit.name, {limit.share}});
    table.rows.push_back({{limit.name},
                          share(limit.share, at + "/share"),
                          {show(seconds(limit.seconds)), limit.seconds, at + "/time_s"},
                          {fmt::format("{:.4g} {}", limit.amount, limit.unit), limit.amount, at + "/amount"},
                          {fmt::format("{:.4g} {}/s", limit.rate, limit.unit), limit.rate, at + "/rate_per_s"},
                          {limit.whose}});
  }
  section.blocks.push_back({"The roofline: what each part would need by itself", std::move(bars), "limits"});
  section.blocks.push_back({"", std::move(table)});
  return section;
}

Section sensitivities(const Explanation& e) {
  const auto& found = *e.sensitivities;
  Section section{"What each number is worth", {}};
  Bars bars;
  bars.unit = Unit::share, bars.parts = {"shorter step when it is a tenth better"};
  Table table;
  table.head = {"key", "now", "a tenth better", "a tenth worse", "share"};
  table.words = {true, true};
  const double now = to_seconds(e.prediction->summary.iteration);
  for (std::size_t i = 0; i < found.all.size(); ++i) {
    const auto& s = found.all[i];
    const auto at = fmt::format("/sensitivity/{}", i);
    const double better = to_seconds(s.better.iteration) / now - 1, worse = to_seconds(s.worse.iteration) / now - 1;
    if (bars.rows.size() < kMostBarsShown && better < -5e-4) bars.rows.push_back({s.key, {-better}, s.value});
    table.rows.push_back({{s.key},
                          {s.value},
                          {fmt::format("{:+.2f} %", 100 * better), better, at + "/iteration_change"},
                          {fmt::format("{:+.2f} %", 100 * worse), worse, at + "/worse/iteration_change"},
                          s.counted() ? share(s.share(), at + "/share") : Value{}});
  }
  if (!bars.rows.empty())
    section.blocks.push_back(
        {"A tenth better", std::move(bars), "sensitivity",
         fmt::format("Shares of all resources, which have a unit of time, sum to {:.2f} %.", 100 * found.sum)});
  section.blocks.push_back({fmt::format("All {} numbers that move the step", table.rows.size()), std::move(table), "",
                            "", table.rows.size() > 12});
  if (!found.missing.empty()) section.blocks.push_back({"What the sum misses", Entries{found.missing}});
  return section;
}

Section advice(const Explanation& e, const ExplainOptions& options) {
  const auto& found = *e.advised;
  const auto& now = e.prediction->summary;
  Section section{"What to change", {}};
  Table table;
  table.head = {"--set", "iteration", "against now", "memory", "fits"};
  Scatter scatter;
  scatter.x = {"memory of the fullest GPU", now.abstract ? Unit::none : Unit::bytes, false};
  scatter.y = {"iteration", Unit::seconds, false};
  scatter.series = {"as it is", "one choice changed", "does not fit"};
  scatter.points.push_back({now.abstract ? now.peak.allocated : now.peak.device.value_or(0), to_seconds(now.iteration),
                            0, "as it is", true, "as it is"});
  for (const auto& a : found.all) {
    const auto set = fmt::format("{}", fmt::join(a.set, " "));
    const bool good = a.fits && a.iteration < now.iteration;
    scatter.points.push_back(
        {a.memory, to_seconds(a.iteration), a.fits ? 1u : 2u, fmt::format("{}: {}", set, show(a.iteration))});
    if (!options.all && !(good && table.rows.size() < options.top)) continue;
    table.rows.push_back({{set},
                          {show(a.iteration), to_seconds(a.iteration)},
                          {fmt::format("{:+.2f} %", 100 * (a.iteration / now.iteration - 1))},
                          {now.abstract ? fmt::format("{:g}", a.memory) : show(bytes(a.memory)), a.memory},
                          {a.fits ? "yes" : "no"}});
  }
  section.blocks.push_back({"Every change of one choice, predicted", std::move(scatter), "advice"});
  if (table.rows.empty())
    section.blocks.push_back({"", Paragraph{"No change of one choice that fits makes the step shorter."}});
  else
    section.blocks.push_back({"Those that make the step shorter", std::move(table)});
  return section;
}

}  // namespace

Page explain_page(const Explanation& e, const ExplainOptions& options, const Asked& asked, const std::string& version) {
  const auto& s = e.prediction->summary;
  Page page;
  page.title = "What decides " + s.name;
  page.subtitle = fmt::format("an iteration takes {}", show(s.iteration));
  page.made_by = "rehearse " + version;
  page.sections.push_back({"The step",
                           {{"", Facts{{{"iteration", {show(s.iteration), to_seconds(s.iteration), "/iteration_s"}}}}},
                            {"Where the time goes on each rank", breakdown_bars(*e.prediction), "breakdown"}}});
  if (e.path) page.sections.push_back(path(e));
  if (e.limits && !e.limits->empty()) page.sections.push_back(limits(e));
  if (e.sensitivities) page.sections.push_back(sensitivities(e));
  if (e.advised) page.sections.push_back(advice(e, options));
  page.sections.push_back(scenario_section(asked));
  return page;
}

}  // namespace rehearsal::report
