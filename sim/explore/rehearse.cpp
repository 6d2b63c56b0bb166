#include "explore/rehearse.hpp"

#include <utility>

#include "cost/cost_model.hpp"
#include "engine/sim.hpp"
#include "explore/post_validation.hpp"
#include "explore/staged.hpp"
#include "graph/flops.hpp"
#include "models/transformer.hpp"

namespace rehearsal::explore {
namespace {

lower::Options lowering_options(const scenario::Scenario& scenario) {
  constexpr lower::Detail kDetails[] = {lower::Detail::stage, lower::Detail::layer, lower::Detail::operators};
  return {kDetails[static_cast<std::size_t>(scenario.simulate.detail)], scenario.simulate.symmetry};
}

Prepared finish(lower::Lowering lowering, schedule::Problem problem, const scenario::Scenario& scenario) {
  const auto& schedule = scenario.schedule.schedule();
  const bool blocking = lowering.blocking_sends();
  auto graph = std::move(lowering).lower(schedule, problem, lowering_options(scenario));
  Prepared prepared;
  prepared.graph = std::move(graph);
  prepared.problem = std::move(problem);
  prepared.blocking_sends = blocking;
  prepared.assumptions = scenario.assumptions;
  prepared.warnings = scenario.warnings;
  return prepared;
}

Prepared prepare_concrete(const scenario::Scenario& scenario, const Effect* without) {
  auto staged = stage(scenario, without);
  auto prepared = finish(std::move(staged.lowering), std::move(staged.problem), scenario);
  prepared.durations = staged.cost.price(prepared.graph.works());
  prepared.layers = staged.layers;
  const auto& c = *scenario.concrete;
  prepared.model_flops = models::model_flops(c.model, scenario.batch.sequence, scenario.batch.global);
  // Ranks of the graph stand for all GPUs, so executed work counts with its multiplicity.
  prepared.hardware_flops = graph::executed_flops(prepared.graph);
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(prepared.warnings, staged.warnings);
  append(prepared.assumptions, staged.assumptions);
  for (auto& a : staged.cost.assumptions()) prepared.assumptions.push_back(std::move(a));
  if (!c.software.own_kernels)  // ours are performed by our own collectives
    append(prepared.assumptions, staged.cost.algorithms(prepared.graph.works()));
  append(prepared.assumptions, staged.cost.substitutes(prepared.graph.works()));
  return prepared;
}

// Every work of a given pipeline is a fixed time.
std::vector<Time> given_durations(std::span<const graph::Work> works) {
  std::vector<Time> times;
  for (const auto& work : works) {
    const auto* wait = std::get_if<graph::Wait>(&work);
    times.push_back(wait ? wait->duration : Time{});
  }
  return times;
}

Prepared prepare_abstract(const scenario::Scenario& scenario) {
  const auto& a = *scenario.abstract;
  const auto& p = scenario.parallelism;
  lower::GivenPipeline pipeline{static_cast<std::uint32_t>(p.pipeline),
                                static_cast<std::uint32_t>(p.chunks),
                                static_cast<std::uint32_t>(scenario.microbatches),
                                {},
                                a.transfer,
                                false};
  const auto value = [](const auto& list, std::size_t i) { return list.size() == 1 ? list[0] : list[i]; };
  for (std::size_t s = 0; s < static_cast<std::size_t>(p.stages()); s++) {
    lower::Held held;
    if (!a.activation.empty()) held.activation = scenario::memory_units(value(a.activation, s));
    if (!a.weight_hold.empty()) held.weight_hold = scenario::memory_units(value(a.weight_hold, s));
    pipeline.stages.push_back({value(a.forward, s), value(a.backward, s), value(a.weight, s), held});
  }
  lower::Lowering lowering(pipeline);
  auto problem = lowering.problem(given_durations(lowering.works()));
  scenario.schedule.set_knobs(problem);
  // Schedules see memory in the user's unit, in which limits are given too. Without `memory` they count forwards: 1
  // each, as in `rehearse schedule`.
  for (std::size_t s = 0; s < problem.stages(); s++) {
    problem.activation[s] = a.activation.empty() ? 1 : value(a.activation, s);
    problem.weight_hold[s] = a.weight_hold.empty() ? 0 : value(a.weight_hold, s);
  }
  auto prepared = finish(std::move(lowering), std::move(problem), scenario);
  prepared.durations = given_durations(prepared.graph.works());
  prepared.assumptions.push_back("stage times are given, not modelled; transfers never queue");
  return prepared;
}

}  // namespace

Prepared prepare(const scenario::Scenario& scenario, const Effect* without) {
  return scenario.concrete ? prepare_concrete(scenario, without) : prepare_abstract(scenario);
}

std::vector<Time> price(const scenario::Scenario& scenario, std::span<const graph::Work> works) {
  if (!scenario.concrete) return given_durations(works);
  const auto& c = *scenario.concrete;
  return cost::CostModel(c.cluster, c.curves, c.software, c.profile).price(works);
}

Rehearsed rehearse(const scenario::Scenario& scenario, const std::string& engine, const Effect* without) {
  Rehearsed result{prepare(scenario, without), {}};
  const auto simulator = engine::make_sim();
  const auto session = simulator->prepare(result.prepared.graph);
  backend::RunOptions options;
  options.durations = result.prepared.durations;
  options.iterations = scenario.simulate.iterations;
  options.engine = engine;
  result.timeline = session->run(options);
  if (scenario.optimizer_sync.post_validation) post_validate(scenario, result, engine);
  return result;
}

}  // namespace rehearsal::explore
