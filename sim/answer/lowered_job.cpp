#include "answer/lowered_job.hpp"

#include <algorithm>
#include <utility>

#include "answer/effect.hpp"
#include "answer/placed.hpp"
#include "answer/stage_costs.hpp"
#include "answer/unused_settings.hpp"
#include "cost/cost_model.hpp"
#include "graph/flops.hpp"
#include "lower/validated.hpp"
#include "models/transformer.hpp"

namespace rehearsal::answer {
namespace {

// No contention for overlapping iterations and the signal bound: with sharing, a transfer may meet others at a better
// time, so it would be no bound.
bool shares(const scenario::Scenario& scenario, const Effect* without) {
  return scenario.concrete && !scenario.optimizer_sync.post_validation && !(without && without->alone) &&
         scenario.resharding.strategy != reshard::Strategy::signal &&
         scenario.simulate.contention != scenario::Contention::off;
}

LoweredJob finish(lower::Lowering lowering, schedule::Problem problem, const scenario::Scenario& scenario,
                  const Effect* without = nullptr) {
  const auto& schedule = scenario.schedule.schedule();
  LoweredJob job;
  job.blocking_sends = lowering.blocking_sends();
  auto lowered = placed(scenario.places.schedule, [&] {
    return std::move(lowering).lower(schedule, problem,
                                     {scenario.simulate.detail, scenario.simulate.symmetry, shares(scenario, without)});
  });
  job.graph = std::move(lowered.graph), job.resource_map = std::move(lowered.resource_map);
  job.scenario = scenario;
  job.problem = std::move(problem);
  job.assumptions = scenario.assumptions;
  const bool tiled = scenario.concrete && scenario.concrete->training.offload.tiles > 1;  // always operator by operator
  if (lowered.detail != scenario.simulate.detail && !tiled)
    job.assumptions.emplace_back(
        "The GPUs of a tensor group have different paths to each other, so the group is simulated operator by "
        "operator: all wait for the slowest");
  else if (lowered.detail != graph::Detail::operators && job.resource_map && job.resource_map->classes_in_groups > 0)
    job.assumptions.emplace_back(
        "The GPUs of a tensor group have different paths to each other, but there are too many tasks to simulate it "
        "operator by operator: none waits there for the slowest");
  job.warnings = scenario.warnings;
  return job;
}

std::vector<LoweredJob::StageEdge> edges_of(const StageCosts& staged) {
  std::vector<LoweredJob::StageEdge> all;
  const auto& transfers = staged.lowering.transfers();
  if (transfers.role_of().empty() && !lower::is_graph(transfers.edges())) return all;
  const auto works = staged.lowering.works();
  const auto durations = staged.cost.price(works, {}, staged.durations), held = staged.cost.held(works);
  for (std::size_t e = 0; e < transfers.edges().size(); ++e) {
    const auto& edge = transfers.edges()[e];
    using enum lower::MessageKind;
    all.push_back({edge.from, edge.to, edge.values.size(), transfers.volume(e, activation),
                   transfers.volume(e, gradient), transfers.times(e, durations, held).transfer});
  }
  return all;
}

LoweredJob prepare_concrete(const scenario::Scenario& scenario, const Effect* without, bool assumed) {
  auto staged = stage(scenario, without);
  auto edges = edges_of(staged);
  auto lowered = finish(std::move(staged.lowering), std::move(staged.problem), scenario, without);
  if (const auto& sync = scenario.optimizer_sync; sync.performed > 0)
    lowered.graph = lower::validated(lowered.graph, *scenario.concrete->training.optimizer->takes_back,
                                     static_cast<std::uint32_t>(scenario.parallelism.pipeline),
                                     static_cast<std::uint32_t>(sync.performed), sync.rollback_probability > 0);
  const auto works = lowered.graph.works();
  const auto conditions = lowered.graph.conditions();
  lowered.durations = placed(scenario.places.cluster, [&] { return staged.cost.price(works, conditions); });
  lowered.held = staged.cost.held(works, conditions);
  if (lowered.resource_map) lowered.footprints = staged.cost.footprints(works, lowered.durations, conditions);
  lowered.volumes = staged.cost.volumes(works);
  lowered.data_volume = staged.data_volume;
  lowered.layers = staged.layers;
  lowered.edges = std::move(edges);
  const auto& c = *scenario.concrete;
  const auto& batch = scenario.batch;
  const models::ModelWork needed{c.training.frozen(), staged.kept, batch.useful(), batch.needed()};
  lowered.model_flops = models::model_flops(c.model, scenario.batch.sequence, scenario.batch.global, needed) *
                        double(std::max(1, scenario.data_parallel.performed));
  // Ranks of the graph represent all GPUs, so executed FLOPs are weighted by multiplicity.
  lowered.hardware_flops = graph::executed_flops(lowered.graph);
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(lowered.warnings, staged.warnings);
  append(lowered.assumptions, staged.assumptions);
  if (!assumed) return lowered;
  append(lowered.assumptions, assumed_framework(scenario, lowered));
  for (auto& a : staged.cost.assumptions(works, lowered.durations, runs_of_works(lowered.graph), conditions))
    lowered.assumptions.push_back(std::move(a.text));
  if (!c.framework.native_kernels)  // native kernels use their own collectives
    append(lowered.assumptions, staged.cost.algorithms(works));
  append(lowered.assumptions, staged.cost.substitutes(works));
  return lowered;
}

// All works of a pipeline with given times have fixed times.
std::vector<Time> given_durations(std::span<const graph::Work> works) {
  std::vector<Time> times;
  for (const auto& work : works) {
    const auto* wait = std::get_if<graph::FixedDelay>(&work);
    times.push_back(wait ? wait->duration : Time{});
  }
  return times;
}

LoweredJob prepare_abstract(const scenario::Scenario& scenario) {
  const auto& a = *scenario.abstract;
  const auto& p = scenario.parallelism;
  lower::GivenPipeline pipeline{static_cast<std::uint32_t>(p.pipeline),
                                static_cast<std::uint32_t>(p.chunks),
                                static_cast<std::uint32_t>(scenario.microbatches()),
                                {},
                                a.transfer,
                                false,
                                scenario.schedule.cut()};
  const auto value = [](const auto& list, std::size_t i) { return list.size() == 1 ? list[0] : list[i]; };
  for (std::size_t s = 0; s < static_cast<std::size_t>(p.stages()); s++) {
    lower::GivenStage stage{value(a.forward, s), value(a.backward, s), value(a.weight, s)};
    if (!a.activation.empty()) stage.activation = scenario::memory_units(value(a.activation, s));
    if (!a.weight_hold.empty()) stage.weight_hold = scenario::memory_units(value(a.weight_hold, s));
    pipeline.stages.push_back(stage);
  }
  pipeline.edges = a.edges;
  lower::Lowering lowering(pipeline);
  auto problem = lowering.problem(given_durations(lowering.works()));
  scenario.schedule.set_knobs(problem);
  // Schedules see memory in the user's unit, as limits do. Without `memory` they count 1 per forward, as in
  // `rehearse schedule`.
  for (std::size_t s = 0; s < problem.stages(); s++) {
    problem.activation[s] = a.activation.empty() ? 1 : value(a.activation, s);
    problem.weight_hold[s] = a.weight_hold.empty() ? 0 : value(a.weight_hold, s);
  }
  auto lowered = finish(std::move(lowering), std::move(problem), scenario);
  lowered.durations = given_durations(lowered.graph.works());
  lowered.assumptions.emplace_back("stage times are given, not modelled; transfers never queue");
  return lowered;
}

}  // namespace

LoweredJob prepare(const scenario::Scenario& scenario, const Effect* without, bool assumed) {
  return scenario.concrete ? prepare_concrete(scenario, without, assumed) : prepare_abstract(scenario);
}

std::vector<std::string> check(const scenario::Scenario& scenario) {
  auto coarse = scenario;
  coarse.simulate.detail = graph::Detail::stage, coarse.simulate.symmetry = true;
  coarse.warnings.clear();
  return prepare(coarse, nullptr, false).warnings;
}

Prices price(const scenario::Scenario& scenario, std::span<const graph::Work> works) {
  if (!scenario.concrete) return {given_durations(works), {}};
  const auto& c = *scenario.concrete;
  const cost::CostModel cost(c.cluster, c.curves, c.framework, c.profile);
  return {cost.price(works), cost.held(works)};
}

std::vector<collective::Execution> executions(const LoweredJob& lowered) {
  if (!lowered.scenario.concrete) return {};
  const auto& c = *lowered.scenario.concrete;
  const cost::CostModel cost(c.cluster, c.curves, c.framework, c.profile);
  return cost.executions(lowered.graph.works(), lowered.graph.conditions());
}

}  // namespace rehearsal::answer
