// Pages of commands with a single picture: reshard, balance, collective, groups.
#include <fmt/format.h>

#include <algorithm>

#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "cluster/device_kind.hpp"
#include "page/layout.hpp"
#include "report/pages.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

constexpr std::uint32_t kMostGpusDrawn = 1024;

Page begin(std::string title, std::string subtitle) {
  Page page;
  page.title = std::move(title), page.subtitle = std::move(subtitle), page.made_by = "rehearse " + program_version();
  return page;
}

Value count(double n, std::string json = "") { return {show_amount(n, Unit::none), n, std::move(json)}; }

// If it is too large for a picture, the error takes its place.
Block picture(const std::string& name, const std::function<std::string()>& draw) {
  try {
    return {"", Picture{draw()}, name};
  } catch (const UserError& error) {
    return {"", Paragraph{"No picture: " + error.diagnostics().front().message}, name};
  }
}

}  // namespace

Page reshard_page(const reshard::Question& question, const reshard::Answer& answer, const Asked& asked) {
  const auto& plan = answer.plan;
  auto page = begin(question.name.empty() ? "A resharding" : question.name,
                    fmt::format("planner {}; {} transfers", question.planner, grouped(answer.transfers.size())));
  Facts facts;
  facts.facts.push_back({"makespan", count(double(plan.makespan), "/makespan"), "elements over one NIC"});
  facts.facts.push_back({"lower bound", count(double(plan.lower_bound), "/lower_bound"),
                         plan.optimal() ? "reached: proven optimal" : "not reached"});
  if (answer.seconds > 0) facts.facts.push_back({"time", {show(seconds(answer.seconds)), answer.seconds, "/time_s"}});
  page.sections.push_back({"The answer", {{"", std::move(facts)}}});
  if (!answer.warnings.empty()) page.sections.back().blocks.push_back({"Warnings", Entries{answer.warnings}});
  page.sections.push_back({"What every NIC does", {picture("plan", [&] { return to_svg(question, answer); })}});
  Table table;
  table.head = {"transfer", "from", "starts", "ends"};
  table.words = {false};
  for (const auto& sending : plan.schedule)
    table.rows.push_back({{std::to_string(sending.task)},
                          {std::to_string(sending.sender)},
                          count(double(sending.start)),
                          count(double(sending.end))});
  page.sections.back().blocks.push_back({"In numbers", std::move(table), "", "", true});
  page.sections.push_back(scenario_section(asked));
  return page;
}

Page balance_page(const balance::Question& question, const balance::Answer& answer, const Asked& asked) {
  auto page = begin(question.name.empty() ? "Experts on GPUs" : question.name,
                    fmt::format("method {}; {} layer{}", question.method, answer.layers.size(),
                                answer.layers.size() == 1 ? "" : "s"));
  Scatter scatter;
  scatter.x = {"layer", Unit::none, false, true};
  scatter.y = {"heaviest GPU over the mean", Unit::none, false};
  scatter.series = {"before", "after", "no placement can be below"};
  Table table;
  table.head = {"layer", "before", "after", "lower bound", "replicas moved"};
  for (std::size_t l = 0; l < answer.layers.size(); ++l) {
    const auto& layer = answer.layers[l];
    scatter.points.push_back({double(l), layer.before_max_over_mean, 0, fmt::format("layer {} before", l)});
    scatter.points.push_back({double(l), layer.lower_bound, 2, fmt::format("layer {}: bound", l)});
    scatter.points.push_back({double(l), layer.max_over_mean, 1, fmt::format("layer {} after", l)});
    table.rows.push_back({{std::to_string(l)},
                          count(layer.before_max_over_mean),
                          count(layer.max_over_mean),
                          count(layer.lower_bound),
                          count(double(layer.moves.replicas))});
  }
  page.sections.push_back({"The load of the heaviest GPU", {}});
  if (answer.layers.size() > 1) page.sections.back().blocks.push_back({"", std::move(scatter), "balance"});
  page.sections.back().blocks.push_back({"", std::move(table), "", "", answer.layers.size() > 16});
  page.sections.push_back({"Where experts stand", {picture("placement", [&] { return to_svg(question, answer); })}});
  page.sections.push_back(scenario_section(asked));
  return page;
}

Page collective_page(const cost::CommunicationModel& model, const cost::OneCollective& one, const Asked& asked) {
  auto page = begin(fmt::format("{} of {} on {} ranks", one.algorithm ? one.algorithm->name : "a collective",
                                show(one.question.size), one.question.ranks),
                    one.why);
  Facts facts;
  facts.facts.push_back({"time", {show(seconds(one.seconds)), one.seconds, "/time_s"}});
  facts.facts.push_back({"bandwidth on the bus",
                         {fmt::format("{:.1f} GB/s", one.bus_bandwidth() / 1e9), one.bus_bandwidth()},
                         "as nccl-tests counts"});
  facts.facts.push_back({"steps", count(double(one.steps.size()))});
  page.sections.push_back({"The answer", {{"", std::move(facts)}}});
  page.sections.push_back({"Step by step", {picture("steps", [&] { return to_svg(one); })}});
  if (const auto kinds = one.link_kinds(); !kinds.empty()) {
    Table table;
    table.head = {"links", "of them", "most over one", "together"};
    for (const auto& kind : kinds)
      table.rows.push_back({{fmt::format("{} to {}", cluster::name(kind.from), cluster::name(kind.to))},
                            count(double(kind.links)),
                            {show(bytes(kind.most)), kind.most},
                            {show(bytes(kind.total)), kind.total}});
    page.sections.push_back({"What goes over the links", {{"", std::move(table)}}});
  }
  page.sections.push_back({"In words", {{"", Verbatim{to_text(model, one, {100, false})}}}});
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
  page.sections.push_back(
      {"Who is with whom", {{"", std::move(table)}, picture("groups", [&] { return to_svg(map); })}});
  if (map.mesh.ranks() > kMostGpusDrawn)
    page.sections.back().blocks.push_back({"", Paragraph{"`--format csv` has a row for every GPU."}});
  page.sections.push_back(scenario_section(asked));
  return page;
}

}  // namespace rehearsal::report
