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

}  // namespace

Page plan_page(const search::Space& space, const search::Outcome& outcome, const Asked& asked) {
  Page page;
  page.title = "The best layouts of " + space.file().bases.front().scenario.name;
  page.made_by = "rehearse " + program_version();
  const auto& c = outcome.counts;
  page.subtitle = fmt::format("{} layouts. {}", grouped(c.layouts), proof_text(space, outcome));
  Facts facts;
  if (!outcome.top.empty())
    facts.facts.push_back(
        {"best iteration", {show(outcome.top.front().iteration), to_seconds(outcome.top.front().iteration)}});
  for (const auto& [name, count] :
       {std::pair("layouts", c.layouts), std::pair("priced", c.priced), std::pair("priced in full", c.simulated),
        std::pair("ruled out by memory", c.cut_memory), std::pair("ruled out by a bound of time", c.cut_bound)})
    facts.facts.push_back({name, {grouped(count), double(count)}});
  page.sections.push_back({"The answer", {{"", std::move(facts)}}});
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
    page.sections.push_back(
        {"The best", {{"", plan_table(space, outcome)}, {"Why the others lose", std::move(bars), "time"}}});
  }
  if (outcome.found.size() > 1) {
    Scatter scatter;
    scatter.x = {"memory of a GPU", Unit::bytes, false};
    scatter.y = {"iteration", Unit::seconds, true};
    const auto front = search::front(space, outcome.found);
    for (const auto* all : {&outcome.found, &front})
      for (const auto& found : *all) {
        const bool marked = all == &front;
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
