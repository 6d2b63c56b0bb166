#include "explore/staged.hpp"

#include <optional>
#include <utility>

#include "plan/plan.hpp"

namespace rehearsal::explore {
namespace {

// The pipeline rank of every stage under the scenario's schedule.
std::vector<std::uint32_t> stage_ranks(const scenario::Scenario& scenario) {
  schedule::Problem shape;
  shape.ranks = static_cast<std::uint32_t>(scenario.parallelism.pipeline);
  shape.chunks = static_cast<std::uint32_t>(scenario.parallelism.chunks);
  shape.microbatches = static_cast<std::uint32_t>(scenario.microbatches);
  scenario.schedule.set_knobs(shape);
  const auto placement = scenario.schedule.schedule().placement;
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t s = 0; s < shape.stages(); s++) ranks.push_back(schedule::rank_of(placement, shape, s));
  return ranks;
}

}  // namespace

Staged stage(const scenario::Scenario& scenario, const Effect* without) {
  std::optional<scenario::Concrete> changed;
  if (without && without->in_scenario) {
    changed = *scenario.concrete;
    without->in_scenario(*changed);
  }
  const auto& c = changed ? *changed : *scenario.concrete;
  const bool both_ways = scenario.schedule.schedule().placement == schedule::Placement::bidirectional;
  auto plan = plan::make_plan({c.model, c.training, c.software, scenario.parallelism, scenario.batch,
                               scenario.microbatches, both_ways ? 2 : 1, c.partition, c.cluster});
  if (without && without->in_plan) without->in_plan(plan);
  auto warnings = plan.warnings, assumptions = plan.assumptions;
  Staged staged{cost::CostModel(c.cluster, c.curves, c.software, c.profile),
                lower::Lowering(std::move(plan), stage_ranks(scenario)),
                {},
                std::move(warnings),
                std::move(assumptions)};
  staged.problem = staged.lowering.problem(staged.cost.price(staged.lowering.works()));
  scenario.schedule.set_knobs(staged.problem);
  return staged;
}

}  // namespace rehearsal::explore
