// Pages of commands with a single picture: reshard, balance, collective, groups.
#include <fmt/format.h>

#include <algorithm>

#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "page/layout.hpp"
#include "report/pages.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::uint32_t kMostGpusDrawn = 1024;
constexpr std::size_t kMostLayersAsBars = 8;  // more are points

Page begin(std::string title, std::string subtitle) {
  Page page;
  page.title = std::move(title), page.subtitle = std::move(subtitle), page.made_by = "rehearse " + program_version();
  return page;
}

// In a text the last column, of words, needs no head.
Table headed(Table table) {
  if (table.head.back().empty()) table.head.back() = "remark";
  return table;
}

// If it is too large for a picture, the error takes its place.
Block picture(const std::string& name, const std::function<Picture()>& draw) {
  try {
    return {"", draw(), name};
  } catch (const UserError& error) {
    return {"", Paragraph{"No picture: " + error.diagnostics().front().message}, name};
  }
}

}  // namespace

std::string say_once(Table& table) {
  std::string said;
  for (std::size_t c = 1; table.rows.size() > 1 && c < table.head.size();) {
    const auto& first = table.rows.front()[c].text;
    if (std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[c].text != first; })) {
      ++c;
      continue;
    }
    if (!first.empty()) said += fmt::format("{}{} {}", said.empty() ? "The same in all: " : ", ", table.head[c], first);
    table.head.erase(table.head.begin() + std::ptrdiff_t(c));
    if (c < table.words.size()) table.words.erase(table.words.begin() + std::ptrdiff_t(c));
    for (auto& row : table.rows) row.erase(row.begin() + std::ptrdiff_t(c));
  }
  return said.empty() ? said : said + ".";
}

Page reshard_page(const Planned& planned, const Asked& asked) {
  const auto& [question, answer, performed] = planned;
  const auto& plan = answer.plan;
  auto page = begin(question.name.empty() ? "A resharding" : question.name,
                    fmt::format("planner {}; {} transfer{}", question.planner, grouped(answer.transfers.size()),
                                answer.transfers.size() == 1 ? "" : "s"));
  const auto described = reshard_answer();
  const auto json = described.json(planned);
  const Showing shown(json, described.items());
  std::vector<Fact> facts{shown.fact("/makespan", "elements over one NIC"),
                          shown.fact("/lower_bound", plan.optimal() ? "reached: proven optimal" : "not reached")};
  if (answer.seconds > 0) facts.push_back(shown.fact("/time_s"));
  if (performed)
    for (auto& fact : performed_facts(*performed)) facts.push_back(std::move(fact));
  page.sections.push_back({"The answer", {{"", Facts{std::move(facts)}}}});
  if (!answer.warnings.empty()) page.sections.back().blocks.push_back({"Warnings", Entries{answer.warnings}});
  auto drawing = drawing_of(question, answer);
  page.sections.push_back(
      {"What every NIC does",
       {{drawing.title, Timeline{drawing}, "plan", drawing.subtitle}, {"In numbers", sendings(answer), "", "", true}}});
  if (auto hops = hops_of(question, answer)) {
    auto title = hops->title;
    auto note = hops->subtitle + ".";
    auto& blocks = page.sections.back().blocks;
    blocks.insert(blocks.begin() + 1, {std::move(title), Timeline{std::move(*hops)}, "hops", std::move(note)});
  }
  page.sections.push_back(scenario_section(asked));
  return page;
}

Page balance_page(const balance::Question& question, const balance::Answer& answer, const Asked& asked) {
  auto page = begin(question.name.empty() ? "Experts on GPUs" : question.name,
                    fmt::format("method {}; {} layer{}", question.method, answer.layers.size(),
                                answer.layers.size() == 1 ? "" : "s"));
  Scatter scatter;
  Bars bars{.parts = {"heaviest GPU over the mean"}, .unit = Unit::ratio};
  scatter.x = {"layer", Unit::none, false, true};
  scatter.y = {"heaviest GPU over the mean", Unit::none, false};
  scatter.series = {"before", "after", "no placement can be below"};
  for (const auto& layer : answer.layers) {
    const double l = layer.layer;
    scatter.points.push_back({l, layer.before_max_over_mean, 0, fmt::format("layer {} before", l)});
    scatter.points.push_back({l, layer.lower_bound, 2, fmt::format("layer {}: bound", l)});
    scatter.points.push_back({l, layer.max_over_mean, 1, fmt::format("layer {} after", l)});
    bars.rows.push_back({fmt::format("layer {} before", l), {layer.before_max_over_mean}});
    bars.rows.push_back({fmt::format("layer {} after", l), {layer.max_over_mean}});
    bars.rows.push_back({fmt::format("layer {}: no placement can be below", l), {layer.lower_bound}});
  }
  page.sections.push_back({"The load of the heaviest GPU", {}});
  if (answer.layers.size() <= kMostLayersAsBars)
    page.sections.back().blocks.push_back({"Over the mean of the GPUs", std::move(bars), "balance"});
  else
    page.sections.back().blocks.push_back({"", std::move(scatter), "balance"});
  page.sections.back().blocks.push_back({"", layer_table(answer), "", "", answer.layers.size() > 16});
  page.sections.push_back({"Where experts stand", {picture("placement", [&] {
                             return Picture{to_svg(question, answer), to_svg(question, answer, kNarrow)};
                           })}});
  page.sections.push_back(scenario_section(asked));
  return page;
}

Page collective_page(const Exchange& exchange, const Asked& asked) {
  const auto& model = exchange.model;
  const auto& one = exchange.one;
  auto page = begin(fmt::format("{} of {} on {} ranks", one.algorithm ? one.algorithm->name : "a collective",
                                show(one.question.size), one.question.ranks),
                    one.why);
  const auto described = collective_answer();
  const auto json = described.json(exchange);
  const Showing shown(json, described.items());
  const double steps = double(one.steps.size());
  std::vector<Fact> facts{shown.fact("/time_s"),
                          shown.fact("/busbw_bytes_per_s", "as nccl-tests counts"),
                          {"steps", {show_amount(steps, Unit::none), steps}}};
  if (exchange.performed)
    for (auto& fact : performed_facts(*exchange.performed)) facts.push_back(std::move(fact));
  page.sections.push_back({"The answer",
                           {{"", Facts{std::move(facts)}},
                            {"Its closed form", headed(closed_form(model, one))},
                            {"Candidates by their closed forms", headed(candidates(model, one))}}});
  page.sections.push_back({"Step by step", {picture("steps", [&] { return Picture{to_svg(one)}; })}});
  if (!one.links.empty()) page.sections.push_back({"What goes over the links", {{"", links(one)}}});
  page.sections.push_back(scenario_section(asked));
  return page;
}

Page groups_page(const GroupMap& map, const Asked& asked) {
  auto page = begin("Groups of " + map.title,
                    fmt::format("{} GPUs on {} nodes", grouped(map.mesh.ranks()), grouped(map.nodes())));
  Table table;
  table.head = {"axis", "groups"}, table.words = {true, true};
  for (const Axis axis : kShownAxes)
    if (is_shown(map.mesh, axis)) table.rows.push_back({{name(axis)}, {group_words(map, axis)}});
  page.sections.push_back({"Who is with whom", {{"", std::move(table)}, picture("groups", [&] {
                                                  return Picture{to_svg(map), to_svg(map, kNarrow)};
                                                })}});
  if (map.mesh.ranks() > kMostGpusDrawn)
    page.sections.back().blocks.push_back({"", Paragraph{"`--format csv` has a row for every GPU."}});
  page.sections.push_back(scenario_section(asked));
  return page;
}

}  // namespace rehearsal::report
