#include "answer/stage_costs.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "answer/estimate.hpp"
#include "answer/placed.hpp"
#include "base/error.hpp"
#include "plan/partition.hpp"
#include "plan/plan.hpp"

namespace rehearsal::answer {
namespace {

// The pipeline rank of every stage under the scenario's schedule.
std::vector<std::uint32_t> stage_ranks(const scenario::Scenario& scenario) {
  schedule::Problem shape;
  shape.ranks = static_cast<std::uint32_t>(scenario.parallelism.pipeline);
  shape.chunks = static_cast<std::uint32_t>(scenario.parallelism.chunks);
  shape.microbatches = static_cast<std::uint32_t>(scenario.microbatches());
  scenario.schedule.set_knobs(shape);
  const auto placement = scenario.schedule.schedule().placement;
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t s = 0; s < shape.stages(); s++) ranks.push_back(schedule::rank_of(placement, shape, s));
  return ranks;
}

// The GPU types among the replicas of each pipeline rank.
std::vector<std::set<std::uint16_t>> kinds_of_stages(const plan::Plan& plan) {
  std::vector<std::set<std::uint16_t>> kinds(plan.rank_layout.pipeline());
  if (!plan.job.cluster.groups.empty())
    for (std::uint32_t r = 0; r < plan.rank_layout.ranks(); r++)
      kinds[plan.rank_layout.stage(r)].insert(plan.job.cluster.kind_of(plan.job.gpu(r)));
  return kinds;
}

// A part of the model takes the same time in every stage with the same layout and GPU type, so its time can be taken
// from any partition; a stage is as slow as its slowest GPUs.
std::vector<std::int64_t> balanced_layers(plan::Job job, const cost::CostModel& cost,
                                          const std::vector<std::uint32_t>& ranks) {
  const auto stages = static_cast<std::size_t>(job.parallelism.stages() / job.copies);
  const auto layers = job.model.layers;
  job.partition = {};
  plan::PartTimes times;
  times.first_may_be_empty = job.model.family != models::Family::mlp;
  auto plan = plan::make_plan(job);
  auto kinds = kinds_of_stages(plan);
  for (auto& some : kinds)
    if (some.empty()) some.insert(0);
  const lower::Lowering lowering(std::move(plan), ranks);
  const auto works = lowering.works();
  std::map<std::uint16_t, std::vector<Time>> priced;
  for (const auto& some : kinds)
    for (const auto kind : some)
      if (!priced.count(kind))
        priced[kind] = cost.price(works, std::vector<graph::Condition>(works.size(), graph::Condition{.gpu = kind}));
  const auto time = [&](lower::ModelPart part, std::size_t stage) {
    Time slowest;
    for (const auto kind : kinds[ranks[stage]]) slowest = std::max(slowest, lowering.time(part, stage, priced[kind]));
    return slowest;
  };
  times.embedding = time(lower::kEmbedding, 0);
  times.head = time(lower::kHead, stages - 1);
  for (std::int64_t l = 0; l < job.model.mtp_layers; l++)
    times.head = times.head + time(lower::kPrediction, stages - 1);
  for (std::size_t s = 0; s < stages; s++) {
    auto& of = times.of_stage.emplace_back(1, Time{});
    for (std::int64_t l = 0; l < layers; l++)
      of.push_back(of.back() + time(lower::layer_part(lowering.plan()->of(0), 0, l), s));
  }
  times.layers = times.of_stage.front();
  return plan::deal_balanced(times, static_cast<std::int64_t>(stages));
}

Time iteration(scenario::Scenario scenario, const Effect* without) {
  scenario.simulate.detail = graph::Detail::stage;  // the iteration is the same at every detail
  scenario.simulate.symmetry = true;
  if (without && without->in_scenario) without->in_scenario(*scenario.concrete);
  return estimate(scenario).iteration;
}
// With this distribution of layers.
Time iteration(scenario::Scenario scenario, std::vector<std::int64_t> layers, const Effect* without) {
  scenario.concrete->partition = {plan::Partition::Kind::listed, std::move(layers)};
  return iteration(std::move(scenario), without);
}

// Balancing the slowest stage does not always give the shortest iteration: work that a stage does once, its place in
// the pipeline and the end of the step matter too. So the even distribution of layers is tried as well.
bool even_is_faster(const scenario::Scenario& scenario, const std::vector<std::int64_t>& balanced,
                    const std::vector<std::int64_t>& even, const Effect* without) {
  if (even == balanced) return false;
  try {
    return iteration(scenario, even, without) < iteration(scenario, balanced, without);
  } catch (const UserError&) {  // not possible with this schedule or model
    return false;
  }
}

// Redundant experts balance load, but cost more weights to read, more gradients to write and update, and GEMMs with
// fewer rows. Of the number allowed, the one with the shortest iteration is used; tried are none, powers of two times
// the expert-parallel degree, and all.
std::int64_t replicas_used(const scenario::Scenario& scenario, const Effect* without) {
  const auto& experts = scenario.concrete->experts;
  const std::int64_t most = experts.redundant, step = scenario.parallelism.expert;
  if (most == 0 || experts.settled || scenario.concrete->framework.native_kernels) return most;
  std::optional<Time> best;
  std::int64_t used = most;
  for (std::int64_t count = 0;; count = std::min(most, std::max(step, 2 * count))) {
    auto variant = scenario;
    variant.concrete->experts.redundant = count, variant.concrete->experts.settled = true;
    try {
      const auto takes = iteration(std::move(variant), without);
      if (!best || takes < *best) best = takes, used = count;
    } catch (const UserError&) {  // the prediction itself reports the error
      return most;
    }
    if (count == most) return used;
  }
}

// The schedule gets the times of the slowest replica of each stage.
void slowest_of_kinds(StageCosts& staged, const std::vector<std::set<std::uint16_t>>& kinds,
                      const std::vector<std::uint32_t>& ranks) {
  const auto works = staged.lowering.works();
  const auto held = staged.cost.held(works);
  std::map<std::uint16_t, schedule::Problem> of;
  for (const auto& some : kinds)
    for (const auto kind : some)
      if (!of.count(kind)) {
        const std::vector<graph::Condition> all(works.size(), graph::Condition{.gpu = kind});
        of[kind] = staged.lowering.problem(staged.cost.price(works, all), held);
      }
  using schedule::Problem;
  for (const auto times : {&Problem::forward, &Problem::input_gradient, &Problem::weight_gradient, &Problem::backward})
    for (std::size_t s = 0; s < ranks.size(); s++) {
      Time slowest;
      for (const auto kind : kinds[ranks[s]]) slowest = std::max(slowest, (of[kind].*times)[s]);
      (staged.problem.*times)[s] = slowest;
    }
}

}  // namespace

StageCosts stage(const scenario::Scenario& scenario, const Effect* without) {
  std::optional<scenario::Concrete> changed;
  if (without && without->in_scenario) {
    changed = *scenario.concrete;
    without->in_scenario(*changed);
  }
  const auto& places = scenario.places;
  const auto& c = changed ? *changed : *scenario.concrete;
  const bool both_ways = scenario.schedule.schedule().placement == schedule::Placement::bidirectional;
  cost::CostModel cost(c.cluster, c.curves, c.framework, c.profile);
  const auto ranks = stage_ranks(scenario);
  plan::Job job{.model = c.model,
                .training = c.training,
                .framework = c.framework,
                .parallelism = scenario.parallelism,
                .batch = scenario.batch,
                .microbatches = scenario.microbatches(),
                .copies = both_ways ? 2 : 1,
                .vocabulary = scenario.schedule.schedule().placement == schedule::Placement::vocabulary,
                .pieces = scenario.schedule.cut(),
                .partition = c.partition,
                .cluster = c.cluster,
                .placement = scenario.placement,
                .faults = scenario.faults,
                .on = scenario.on,
                .experts = c.experts,
                .data_parallel = scenario.data_parallel,
                .resharding = scenario.resharding};
  std::vector<std::string> dealt;
  if (const auto used = replicas_used(scenario, without); used < job.experts.redundant) {
    dealt.push_back(fmt::format("experts.redundant: {} of {} replicas are used; more make the iteration longer here",
                                used, job.experts.redundant));
    job.experts.redundant = used;
  }
  if (job.partition.kind == plan::Partition::Kind::balanced && job.vocabulary)
    placed(places.layout, [&] {
      throw UserError(
          "layers alone are dealt to stages where the vocabulary is cut over all of them; set partition to uniform, or "
          "to a list");
    });
  if (job.partition.kind == plan::Partition::Kind::balanced) {
    auto layers = placed(places.layout, [&] { return balanced_layers(job, cost, ranks); });
    std::vector<std::string> ignored;
    auto even = plan::deal_layers(c.model.layers, std::int64_t(layers.size()), {}, ignored, c.model.mtp_layers);
    if (even_is_faster(scenario, layers, even, without)) {
      layers = std::move(even);
      dealt.push_back("partition balanced: dealing the layers evenly gives the shorter iteration here");
    }
    job.partition = {plan::Partition::Kind::listed, std::move(layers)};
  }
  auto plan = placed(places.layout, [&] { return plan::make_plan(std::move(job)); });
  placed(places.data_parallel, [&] { plan::check_servers(plan); });
  if (without && without->in_plan) without->in_plan(plan);
  auto warnings = plan.warnings, assumptions = plan.assumptions;
  assumptions.insert(assumptions.end(), dealt.begin(), dealt.end());
  std::vector<std::int64_t> layers;
  for (const auto& stage : plan.stages) layers.push_back(stage.layers);
  std::optional<plan::DataVolume> volume;
  if (plan.replicas() > 1 && !plan.laid_out() && plan.job.copies == 1 && !plan.performed() &&
      !plan.job.data_parallel.served())
    volume = plan::data_volume(plan, ranks);
  const auto kinds = kinds_of_stages(plan);
  const double kept = plan.kept;
  StageCosts staged{std::move(cost),
                    lower::Lowering(std::move(plan), ranks),
                    {},
                    {},
                    std::move(layers),
                    std::move(volume),
                    kept,
                    std::move(warnings),
                    std::move(assumptions)};
  staged.durations = placed(places.cluster, [&] { return staged.cost.price(staged.lowering.works()); });
  staged.problem = staged.lowering.problem(staged.durations, staged.cost.held(staged.lowering.works()));
  if (!c.cluster.groups.empty()) slowest_of_kinds(staged, kinds, ranks);
  scenario.schedule.set_knobs(staged.problem);
  return staged;
}

}  // namespace rehearsal::answer
