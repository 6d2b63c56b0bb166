// Per-stage layouts: `stages`, a list with a mapping for each stage.
#include <fmt/format.h>

#include <algorithm>

#include "plan/fields.hpp"
#include "plan/layouts.hpp"
#include "plan/rules.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
void load_stages(Context& context, const Node& node, ParallelismChoice& parallelism) {
  auto& problems = context.problems;
  auto& p = parallelism.value;
  const auto before = problems.count();
  std::vector<plan::StageLayout> layouts;
  for (auto& [layout, at] : read_entries<plan::StageLayout>(problems, node, "stages", plan::stage_list(),
                                                            {p.tensor, p.sequence, p.context, p.data, {}, {}}))
    layouts.push_back(std::move(layout));
  const auto stages = static_cast<std::int64_t>(layouts.size());
  if (problems.count() == before && parallelism.reader.given("pipeline") && p.pipeline != stages)
    problems.error(node.where(), fmt::format("'stages' lists {} stages, but pipeline is {}", stages, p.pipeline));
  if (problems.count() == before)
    for (const auto& broken : plan::broken_by_seats(layouts, std::nullopt)) {
      const Node& stage = *node.items[broken.stage];
      const Node* said = stage.find(broken.key);
      problems.error((said ? *said : stage).where(), broken.rule);
    }
  if (problems.count() != before) {
    parallelism.sound = false;
    return;
  }
  p.pipeline = stages;
  const bool alike = std::all_of(layouts.begin(), layouts.end(), [&](const plan::StageLayout& layout) {
    return layout.like(layouts.front()) && layout.gpus.empty() && !layout.sharding;
  });
  const auto& first = layouts.front();
  p.tensor = first.tensor, p.sequence = first.sequence, p.context = first.context, p.data = first.data;
  parallelism.data_given = true;
  if (!alike) p.layouts = std::move(layouts);
}

Location place_of_stage(const Node& root, std::size_t stage) {
  const Node* stages = root.find("stages");
  return stages && stage < stages->items.size() ? stages->items[stage]->where() : root.where();
}

// Checks that every per-stage layout divides a micro-batch and its sequences.
void check_layouts(Context& context, const Node& root, const Scenario& scenario, const ParallelismChoice& parallelism) {
  const auto& p = parallelism.value;
  const auto& c = *scenario.concrete;
  const auto sequences = scenario.batch.micro * p.data;
  for (std::size_t s = 0; s < p.layouts.size(); ++s) {
    if (sequences % p.layouts[s].data != 0) {
      context.problems.error(place_of_stage(root, s),
                             fmt::format("stage {}: 'data' {} does not divide the {} sequences of a micro-batch "
                                         "(batch.micro {} x data {} of stage 0)",
                                         s, p.layouts[s].data, sequences, scenario.batch.micro, p.data));
      continue;
    }
    auto batch = scenario.batch;
    batch.micro = sequences / p.layouts[s].data;
    if (const Node* said = p.layouts[s].sharding ? root.find("stages")->items[s]->find("sharding") : nullptr) try {
        plan::check_sharding(p, s, scenario.placement, {sequences, batch.sequence, c.model.hidden});
      } catch (const UserError& e) {
        context.problems.error(said->where(), fmt::format("stage {}: {}", s, e.diagnostics()[0].message));
      }
    for (const auto& broken :
         plan::broken_by_sequence(c.model, c.training, c.experts, p.as(p.layouts[s]), batch, scenario.schedule.cut()))
      context.problems.error(place_of_stage(root, s), fmt::format("stage {}: {}", s, broken.rule));
  }
}

}  // namespace rehearsal::scenario
