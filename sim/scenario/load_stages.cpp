// Per-stage layouts: `stages`, a list with a mapping for each stage, and `resharding`.
#include <fmt/format.h>

#include <algorithm>

#include "base/spelling.hpp"
#include "plan/fields.hpp"
#include "plan/layouts.hpp"
#include "plan/rules.hpp"
#include "reshard/registry.hpp"
#include "scenario/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

constexpr IntegerRange kGpu{0, 1'000'000};

plan::StageLayout read_stage(Context& context, const Node& node, const plan::Parallelism& usual) {
  auto& problems = context.problems;
  plan::StageLayout layout{usual.tensor, usual.sequence, usual.context, usual.data, {}, {}};
  MapReader map(problems, node, "stages");
  if (!map.node()) return layout;
  if (const Node* degrees = map.find("parallelism")) {
    MapReader inner(problems, *degrees, "parallelism");
    layout.tensor = inner.integer("tensor", kDegree, layout.tensor);
    layout.sequence = inner.boolean("sequence", layout.sequence);
    layout.context = inner.integer("context", kDegree, layout.context);
    layout.data = inner.integer("data", kDegree, layout.data);
    for (const char* key : {"pipeline", "chunks", "zero", "expert", "expert_tensor"})
      if (inner.find(key))
        problems.error(inner.at(key),
                       fmt::format("'{}' is of all stages; give it under 'parallelism' of the file", key));
    inner.finish();
  }
  if (const Node* gpus = map.find("gpus")) {
    if (gpus->kind != Node::Kind::sequence || gpus->items.empty())
      problems.error(gpus->where(),
                     fmt::format("'gpus' must be a list of the GPUs of the stage, such as [0, 1, 2, 3]; "
                                 "a stage without GPUs holds nothing; found {}",
                                 gpus->kind == Node::Kind::sequence ? "an empty list" : describe(*gpus)));
    else
      for (const Node* item : gpus->items)
        if (const auto gpu = read_integer(problems, *item, "an entry of 'gpus'", kGpu))
          layout.gpus.push_back(static_cast<std::uint32_t>(*gpu));
  }
  if (const Node* sharding = map.find("sharding"))
    if (const auto text = read_text(problems, *sharding, "'sharding'")) try {
        layout.sharding = reshard::parse_spec(*text);
      } catch (const UserError& e) {
        problems.error(sharding->where(), e.diagnostics()[0].message);
      }
  map.finish();
  return layout;
}

}  // namespace

plan::Resharding load_resharding(Context& context, const Node* node, const Node& root) {
  plan::Resharding resharding;
  if (!node) return resharding;
  resharding.asked = true;
  MapReader map(context.problems, node, "resharding", root);
  map.fill(plan::resharding_fields(), &resharding, {"chunks"});
  if (const Node* chunks = map.find("chunks");
      chunks && !(chunks->kind == Node::Kind::scalar && chunks->text == "auto"))
    resharding.chunks =
        read_integer(context.problems, *chunks, "'chunks' (a whole number, or auto)", kCount).value_or(0);
  const auto& planners = reshard::registry();
  if (!planners.find(resharding.planner))
    context.problems.error(map.at("planner"), fmt::format("unknown planner {}{}", in_quotes(resharding.planner),
                                                          suggestion(resharding.planner, planners.names())));
  map.finish();
  return resharding;
}

void load_stages(Context& context, const Node& node, ParallelismChoice& parallelism) {
  auto& problems = context.problems;
  auto& p = parallelism.value;
  const auto before = problems.count();
  if (node.kind != Node::Kind::sequence || node.items.empty()) {
    problems.error(node.where(), fmt::format("'stages' must be a list with a mapping for each stage, such as "
                                             "{{parallelism: {{tensor: 2, data: 2}}, gpus: [0, 1, 2, 3]}}; found {}",
                                             describe(node)));
    parallelism.sound = false;
    return;
  }
  std::vector<plan::StageLayout> layouts;
  for (const Node* item : node.items) layouts.push_back(read_stage(context, *item, p));
  const auto stages = static_cast<std::int64_t>(layouts.size());
  if (parallelism.reader.given("pipeline") && p.pipeline != stages)
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
