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

Page begin(std::string title, std::string subtitle) {
  Page page;
  page.title = std::move(title), page.subtitle = std::move(subtitle), page.made_by = "rehearse " + program_version();
  return page;
}

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
  const auto described = reshard_answer();
  const auto json = described.json({question, answer});
  const Showing shown(json, described.items());
  std::vector<Fact> facts{shown.fact("/makespan", "elements over one NIC"),
                          shown.fact("/lower_bound", plan.optimal() ? "reached: proven optimal" : "not reached")};
  if (answer.seconds > 0) facts.push_back(shown.fact("/time_s"));
  page.sections.push_back({"The answer", {{"", Facts{std::move(facts)}}}});
  if (!answer.warnings.empty()) page.sections.back().blocks.push_back({"Warnings", Entries{answer.warnings}});
  page.sections.push_back(
      {"What every NIC does",
       {picture("plan", [&] { return to_svg(question, answer); }), {"In numbers", sendings(answer), "", "", true}}});
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
  for (const auto& layer : answer.layers) {
    const double l = layer.layer;
    scatter.points.push_back({l, layer.before_max_over_mean, 0, fmt::format("layer {} before", l)});
    scatter.points.push_back({l, layer.lower_bound, 2, fmt::format("layer {}: bound", l)});
    scatter.points.push_back({l, layer.max_over_mean, 1, fmt::format("layer {} after", l)});
  }
  page.sections.push_back({"The load of the heaviest GPU", {}});
  if (answer.layers.size() > 1) page.sections.back().blocks.push_back({"", std::move(scatter), "balance"});
  page.sections.back().blocks.push_back({"", layer_table(answer), "", "", answer.layers.size() > 16});
  page.sections.push_back({"Where experts stand", {picture("placement", [&] { return to_svg(question, answer); })}});
  page.sections.push_back(scenario_section(asked));
  return page;
}

Page collective_page(const cost::CommunicationModel& model, const cost::OneCollective& one, const Asked& asked) {
  auto page = begin(fmt::format("{} of {} on {} ranks", one.algorithm ? one.algorithm->name : "a collective",
                                show(one.question.size), one.question.ranks),
                    one.why);
  const auto described = collective_answer();
  const auto json = described.json({model, one});
  const Showing shown(json, described.items());
  const double steps = double(one.steps.size());
  page.sections.push_back({"The answer",
                           {{"", Facts{{shown.fact("/time_s"),
                                        shown.fact("/busbw_bytes_per_s", "as nccl-tests counts"),
                                        {"steps", {show_amount(steps, Unit::none), steps}}}}},
                            {"Its closed form", closed_form(model, one)},
                            {"Candidates by their closed forms", candidates(model, one)}}});
  page.sections.push_back({"Step by step", {picture("steps", [&] { return to_svg(one); })}});
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
  page.sections.push_back(
      {"Who is with whom", {{"", std::move(table)}, picture("groups", [&] { return to_svg(map); })}});
  if (map.mesh.ranks() > kMostGpusDrawn)
    page.sections.back().blocks.push_back({"", Paragraph{"`--format csv` has a row for every GPU."}});
  page.sections.push_back(scenario_section(asked));
  return page;
}

}  // namespace rehearsal::report
