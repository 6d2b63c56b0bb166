// `plan` as a page.
#include <fmt/format.h>

#include <algorithm>

#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "report/pages.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using search::Found;

std::string words(const search::Space& space, const search::Layout& layout) {
  std::string text;
  for (const auto& [key, value] : space.sets(layout))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key.substr(key.rfind('.') + 1), value);
  return text;
}

// Results first, then the layout.
Table best_table(const Showing& shown, const Plan& plan) {
  std::vector<std::string> columns{"iteration_s", "alone_s", "peak_memory_bytes/device=memory", "gpus"};
  if (plan.outcome.top.front().run)
    columns.insert(columns.end() - 1,
                   {"job/days=days", "job/gpu_hours=GPU-hours", "job/cost=cost", "job/goodput=goodput"});
  if (plan.goal.order == search::Goal::Order::energy) columns.insert(columns.end() - 1, "job/energy_mwh=MWh");
  for (const auto& [key, value] : plan.space.sets(plan.outcome.top.front().layout))
    columns.push_back("set/" + key + "=" + key.substr(key.rfind('.') + 1));
  const std::vector<std::string_view> asked(columns.begin(), columns.end());
  return shown.table("/top", asked, "#");
}

}  // namespace

Page plan_page(const Plan& plan, const Asked& asked) {
  const auto& space = plan.space;
  const auto& outcome = plan.outcome;
  const auto json = plan_answer().json(plan);
  const Showing shown(json, plan_answer().items());
  Page page;
  page.title = "The best layouts of " + space.file().bases.front().scenario.name;
  page.made_by = "rehearse " + program_version();
  page.subtitle = fmt::format("{} layouts. {}", grouped(outcome.counts.layouts), proof_text(space, outcome));
  Facts facts;
  if (!outcome.top.empty() && space.clusters() > 1) facts.facts.push_back(shown.fact("/best/cluster"));
  if (!outcome.top.empty()) facts.facts.push_back({"best iteration", shown.value("/best/iteration_s")});
  for (const char* count : {"/layouts", "/priced", "/simulated", "/cut/memory", "/cut/bound"})
    facts.facts.push_back(shown.fact(count));
  page.sections.push_back({"The answer", {{"", std::move(facts)}}});
  if (!outcome.top.empty())
    page.sections.back().blocks.push_back({"The best layout", Paragraph{words(space, outcome.top.front().layout)}});
  if (!outcome.top.empty()) {
    Bars bars;
    bars.unit = Unit::seconds, bars.colors = category_colors();
    for (std::size_t p = 0; p < graph::kCategories; ++p)
      bars.parts.push_back(graph::name(static_cast<graph::Category>(p)));
    for (std::size_t i = 0; i < outcome.top.size(); ++i) {
      const auto& found = outcome.top[i];
      Bars::Row row{fmt::format("{}", i + 1), {}};
      for (const Time part : found.full.summary.breakdown) row.values.push_back(to_seconds(part));
      bars.rows.push_back(std::move(row));
    }
    auto why = meanings(bars);
    auto table = best_table(shown, plan);
    auto same = say_once(table);
    page.sections.push_back({"The best",
                             {{"", std::move(table), "", std::move(same)},
                              {"Why the others lose", std::move(bars), "time", std::move(why)}}});
  }
  if (outcome.found.size() > 1) {
    Scatter scatter;
    scatter.x = {"memory of a GPU", Unit::bytes, false};
    scatter.y = {"iteration", Unit::seconds, true};
    for (const auto* all : {&outcome.found, &plan.front})
      for (const auto& found : *all) {
        const bool marked = all == &plan.front;
        scatter.points.push_back(
            {found.device, to_seconds(found.iteration), marked ? 4u : 0u, words(space, found.layout), marked});
        if (marked) scatter.frontier.emplace_back(found.device, to_seconds(found.iteration));
      }
    page.sections.push_back(
        {"Time against memory",
         {{"What fits and was predicted in full", std::move(scatter), "pareto",
           "Large points: nothing beats them in time, memory or GPUs without being worse in another."
           " What a bound ruled out is not here."}}});
  }
  page.sections.push_back(scenario_section(asked));
  return page;
}

}  // namespace rehearsal::report
