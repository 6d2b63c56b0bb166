#include "explore/staged.hpp"

#include <optional>
#include <utility>

#include "plan/partition.hpp"
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

// The parts of a model take as long wherever they are, so any partition will do to learn their times.
std::vector<std::int64_t> balanced_layers(plan::Job job, const cost::CostModel& cost,
                                          const std::vector<std::uint32_t>& ranks) {
  using lower::ModelPart;
  const auto stages = job.parallelism.stages() / job.copies, layers = job.model.layers;
  const auto training = job.training;
  job.partition = {};
  plan::PartTimes times;
  times.first_may_be_empty = job.model.family != models::Family::mlp;
  const lower::Lowering lowering(plan::make_plan(std::move(job)), ranks);
  const auto durations = cost.price(lowering.works());
  times.embedding = lowering.time(ModelPart::kEmbedding, durations);
  times.head = lowering.time(ModelPart::kHead, durations);
  times.layers.push_back(Time{});
  for (std::int64_t l = 0; l < layers; l++) {
    const bool as_asked = training.recomputes_alike() || training.recomputes(l);
    times.layers.push_back(times.layers.back() +
                           lowering.time(as_asked ? ModelPart::kLayer : ModelPart::kKeptLayer, durations));
  }
  return plan::deal_balanced(times, stages);
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
  cost::CostModel cost(c.cluster, c.curves, c.software, c.profile);
  const auto ranks = stage_ranks(scenario);
  plan::Job job{c.model,           c.training,  c.software, scenario.parallelism, scenario.batch, scenario.microbatches,
                both_ways ? 2 : 1, c.partition, c.cluster};
  if (job.partition.kind == plan::Partition::Kind::balanced)
    job.partition = {plan::Partition::Kind::listed, balanced_layers(job, cost, ranks)};
  auto plan = plan::make_plan(std::move(job));
  if (without && without->in_plan) without->in_plan(plan);
  auto warnings = plan.warnings, assumptions = plan.assumptions;
  std::vector<std::int64_t> layers;
  for (const auto& stage : plan.stages) layers.push_back(stage.layers);
  Staged staged{
      std::move(cost),       lower::Lowering(std::move(plan), ranks), {}, std::move(layers), std::move(warnings),
      std::move(assumptions)};
  staged.problem = staged.lowering.problem(staged.cost.price(staged.lowering.works()));
  scenario.schedule.set_knobs(staged.problem);
  return staged;
}

}  // namespace rehearsal::explore
