#include "answer/question.hpp"

#include <algorithm>
#include <utility>

#include "answer/effect.hpp"
#include "answer/idle_keys.hpp"
#include "answer/placed.hpp"
#include "answer/staged.hpp"
#include "cost/cost_model.hpp"
#include "graph/flops.hpp"
#include "lower/validated.hpp"
#include "models/transformer.hpp"

namespace rehearsal::answer {
namespace {

// Our own kernels run on processors whose sharing nobody has measured, and iterations that overlap are walked without.
// A bound is one of them: who shares may meet others at a better time than who does not.
bool shares(const scenario::Scenario& scenario, const Effect* without) {
  return scenario.concrete && !scenario.optimizer_sync.post_validation && !(without && without->alone) &&
         !scenario.concrete->software.own_kernels && scenario.resharding.strategy != reshard::Strategy::signal &&
         scenario.simulate.network != scenario::Network::closed_form;
}

Question finish(lower::Lowering lowering, schedule::Problem problem, const scenario::Scenario& scenario,
                const Effect* without = nullptr) {
  const auto& schedule = scenario.schedule.schedule();
  Question question;
  question.blocking_sends = lowering.blocking_sends();
  auto lowered = placed(scenario.places.schedule, [&] {
    return std::move(lowering).lower(schedule, problem,
                                     {scenario.simulate.detail, scenario.simulate.symmetry, shares(scenario, without)});
  });
  question.graph = std::move(lowered.graph), question.surroundings = std::move(lowered.surroundings);
  question.scenario = scenario;
  question.problem = std::move(problem);
  question.assumptions = scenario.assumptions;
  const bool tiled = scenario.concrete && scenario.concrete->training.offload.tiles > 1;  // always operator by operator
  if (lowered.detail != scenario.simulate.detail && !tiled)
    question.assumptions.emplace_back(
        "The GPUs of a tensor group have different paths to each other, so the group is simulated operator by "
        "operator: all wait for the slowest");
  else if (lowered.detail != graph::Detail::operators && question.surroundings &&
           question.surroundings->classes_in_groups > 0)
    question.assumptions.emplace_back(
        "The GPUs of a tensor group have different paths to each other, but there are too many tasks to simulate it "
        "operator by operator: none waits there for the slowest");
  question.warnings = scenario.warnings;
  return question;
}

std::vector<Question::StageEdge> edges_of(const Staged& staged) {
  std::vector<Question::StageEdge> all;
  const auto& crossings = staged.lowering.crossings();
  if (crossings.role_of().empty() && !lower::is_graph(crossings.edges())) return all;
  const auto works = staged.lowering.works();
  const auto durations = staged.cost.price(works), held = staged.cost.held(works);
  for (std::size_t e = 0; e < crossings.edges().size(); ++e) {
    const auto& edge = crossings.edges()[e];
    using enum lower::MessageKind;
    all.push_back({edge.from, edge.to, edge.values.size(), crossings.volume(e, activation),
                   crossings.volume(e, gradient), crossings.times(e, durations, held).transfer});
  }
  return all;
}

Question prepare_concrete(const scenario::Scenario& scenario, const Effect* without) {
  auto staged = stage(scenario, without);
  auto edges = edges_of(staged);
  auto question = finish(std::move(staged.lowering), std::move(staged.problem), scenario, without);
  if (const auto& sync = scenario.optimizer_sync; sync.performed > 0)
    question.graph = lower::validated(question.graph, static_cast<std::uint32_t>(scenario.parallelism.pipeline),
                                      static_cast<std::uint32_t>(sync.performed), sync.rollback_probability > 0);
  const auto works = question.graph.works();
  const auto conditions = question.graph.conditions();
  question.durations = placed(scenario.places.cluster, [&] { return staged.cost.price(works, conditions); });
  question.held = staged.cost.held(works, conditions);
  if (question.surroundings) question.footprints = staged.cost.footprints(works, question.durations, conditions);
  question.volumes = staged.cost.volumes(works);
  question.data_volume = staged.data_volume;
  question.layers = staged.layers;
  question.edges = std::move(edges);
  const auto& c = *scenario.concrete;
  question.model_flops = models::model_flops(c.model, scenario.batch.sequence, scenario.batch.global) *
                         double(std::max(1, scenario.data_parallel.performed));
  // Ranks of the graph stand for all GPUs, so executed work counts with its multiplicity. Pieces of
  // a sequence meet the keys up to the middle of their own (models/framework_pieces.cpp), the first all of its own:
  // (p^2 + 1) / 2p^2 of the scores. A mask is not discounted, and neither is that.
  const auto pieces = double(scenario.schedule.cut());
  question.hardware_flops = graph::executed_flops(question.graph, 2 / (1 + 1 / (pieces * pieces)));
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(question.warnings, staged.warnings);
  append(question.assumptions, staged.assumptions);
  append(question.assumptions, assumed_software(scenario, question));
  for (auto& a : staged.cost.assumptions(works, question.durations, runs_of_works(question.graph), conditions))
    question.assumptions.push_back(std::move(a.text));
  if (!c.software.own_kernels)  // ours are performed by our own collectives
    append(question.assumptions, staged.cost.algorithms(works));
  append(question.assumptions, staged.cost.substitutes(works));
  return question;
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

Question prepare_abstract(const scenario::Scenario& scenario) {
  const auto& a = *scenario.abstract;
  const auto& p = scenario.parallelism;
  lower::GivenPipeline pipeline{static_cast<std::uint32_t>(p.pipeline),
                                static_cast<std::uint32_t>(p.chunks),
                                static_cast<std::uint32_t>(scenario.microbatches),
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
  // Schedules see memory in the user's unit, in which limits are given too. Without `memory` they count forwards: 1
  // each, as in `rehearse schedule`.
  for (std::size_t s = 0; s < problem.stages(); s++) {
    problem.activation[s] = a.activation.empty() ? 1 : value(a.activation, s);
    problem.weight_hold[s] = a.weight_hold.empty() ? 0 : value(a.weight_hold, s);
  }
  auto question = finish(std::move(lowering), std::move(problem), scenario);
  question.durations = given_durations(question.graph.works());
  question.assumptions.emplace_back("stage times are given, not modelled; transfers never queue");
  return question;
}

}  // namespace

Question prepare(const scenario::Scenario& scenario, const Effect* without) {
  return scenario.concrete ? prepare_concrete(scenario, without) : prepare_abstract(scenario);
}

std::vector<std::string> check(const scenario::Scenario& scenario) {
  auto coarse = scenario;
  coarse.simulate.detail = graph::Detail::stage, coarse.simulate.symmetry = true;
  coarse.warnings.clear();
  return prepare(coarse).warnings;
}

Prices price(const scenario::Scenario& scenario, std::span<const graph::Work> works) {
  if (!scenario.concrete) return {given_durations(works), {}};
  const auto& c = *scenario.concrete;
  const cost::CostModel cost(c.cluster, c.curves, c.software, c.profile);
  return {cost.price(works), cost.held(works)};
}

}  // namespace rehearsal::answer
