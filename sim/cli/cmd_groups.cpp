// rehearse groups: the group of every GPU along every axis of a scenario.
#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/numbers.hpp"
#include "cli/output_files.hpp"
#include "cli/page_options.hpp"
#include "report/pages.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::cli {
namespace {

const CommandText kGroupsText{
    .name = "groups",
    .operands = "SCENARIO [OPTIONS]",
    .summary =
        "Shows which GPU is in which group along every axis: tensor, context, data, pipeline, and how expert groups\n"
        "divide the GPUs of a pipeline rank. Also shows the nodes, and which groups cross them.",
    .more =
        "The scenario's 'placement' orders the axes. Text numbers the groups of an axis and shows the first nodes\n"
        "of a large job; json and csv hold all GPUs.\n"
        "An expert group holds every expert once; an expert-data group holds the same experts and adds up their\n"
        "gradients.\n",
    .example =
        "  rehearse groups scenarios/llama3-70b-64xh100.yaml\n"
        "  rehearse groups scenarios/llama3-70b-64xh100.yaml --expert 8 --svg groups.svg\n"
        "  rehearse groups scenarios/gpt3-175b-1024xa100.yaml \\\n"
        "    --set 'placement=[pipeline, tensor, context, expert, data]' --format json\n",
    .takes_set = true};

constexpr std::int64_t kLargestDegree = 1'000'000;

}  // namespace

int run_groups(Session& session, const Arguments& arguments) {
  CommonOptions common(session);
  std::string expert, expert_tensor;
  PageOptions pages;
  const OptionList own = with_page_options(
      {{"expert", "N", "GPUs that share the experts of a layer (default: the scenario's)", &expert},
       {"expert-tensor", "N", "GPUs that share one expert (default: the scenario's)", &expert_tensor}},
      pages, "draw nodes and GPUs, one panel per axis, a colour per group");
  const auto line = parse(kGroupsText, own, arguments, common);
  if (!line) return 0;
  const auto& path = one_operand(kGroupsText, *line, "a scenario file");
  const auto given = [&](const std::string& option, const std::string& text) {
    return line->has(option) ? std::optional(std::int64_t(whole_number("--" + option, text, 1, kLargestDegree)))
                             : std::nullopt;
  };
  const auto experts = given("expert", expert), share = given("expert-tensor", expert_tensor);
  check_outputs(common, page_outputs(pages), {path});

  const auto scenario = scenario::load(path, common.set, {}, session.files());
  if (!scenario.concrete)
    throw UserError(fmt::format("{}: given 'costs' stand on no cluster, so there are no groups to show", path));
  if (!scenario.parallelism.layouts.empty())
    throw UserError(
        fmt::format("{}: its 'stages' are cut each in its own way, and no one mesh has all of their groups; leave "
                    "'stages' out to see those of a 'parallelism' for all",
                    path));
  warn(common, scenario.warnings);
  auto parallelism = scenario.parallelism;
  parallelism.expert = experts.value_or(parallelism.expert);
  parallelism.expert_tensor = share.value_or(parallelism.expert_tensor);
  const report::GroupMap map{scenario.name, plan::mesh_of(parallelism, scenario.placement),
                             static_cast<std::uint32_t>(scenario.concrete->cluster.gpus_per_node)};
  write_pages(common, pages, [&] { return report::groups_page(map, as_asked(session, "groups", arguments, path)); });
  emit_report(common, {.text = [&] { return report::to_text(map, text_style(common)); },
                       .json = [&] { return report::groups_answer().json(map).lines("groups", 2); },
                       .csv = [&] { return report::to_csv(map); }});
  return 0;
}

}  // namespace rehearsal::cli
