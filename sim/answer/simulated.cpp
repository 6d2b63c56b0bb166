#include "answer/simulated.hpp"

#include <algorithm>
#include <variant>

#include "engine/sim.hpp"

namespace rehearsal::answer {
namespace {

// False for steps whose length is not simply the last end in one simulation of one graph.
bool is_one_simulation(const scenario::Scenario& scenario) {
  return scenario.concrete && scenario.parallelism.layouts.empty() && !scenario.optimizer_sync.post_validation &&
         !scenario.data_parallel.served();
}

bool same_structure(const graph::Program& a, const graph::Program& b) {
  return a.work == b.work && a.lane == b.lane && a.endpoint == b.endpoint && a.sequence == b.sequence &&
         a.dependencies == b.dependencies && a.endpoints == b.endpoints && a.endpoint_tasks == b.endpoint_tasks;
}
bool same_structure(const graph::Rank& a, const graph::Rank& b) {
  return a.program == b.program && a.attachments == b.attachments;
}
// Of a work the simulator sees its price, and what it is put together from.
bool same_structure(const graph::Work& a, const graph::Work& b) {
  const bool composite = std::holds_alternative<graph::Sequence>(a) || std::holds_alternative<graph::Overlapped>(a);
  return a.index() == b.index() && (!composite || a == b);
}

template <class List>
bool all_alike(const List& a, const List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return same_structure(x, y); });
}
bool same_groups(std::span<const graph::Group> a, std::span<const graph::Group> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.members == y.members; });
}

}  // namespace

backend::RunOptions run_of(const LoweredJob& lowered, const std::string& engine) {
  const auto& scenario = lowered.scenario;
  backend::RunOptions run;
  run.durations = lowered.durations;
  run.held = lowered.held;
  run.iterations = scenario.data_parallel.performed > 0 ? 1 : scenario.simulate.iterations;
  run.engine = engine;
  if (engine == "auto" && scenario.simulate.contention == scenario::Contention::on && lowered.resource_map)
    run.engine = "fluid";
  run.footprints = lowered.footprints;
  if (lowered.resource_map) run.places = &lowered.resource_map->places;
  return run;
}

bool same_structure(const graph::TaskGraph& a, const graph::TaskGraph& b) {
  return same_groups(a.groups(), b.groups()) && all_alike(a.works(), b.works()) && all_alike(a.ranks(), b.ranks()) &&
         all_alike(a.programs(), b.programs());
}

bool same_step(const LoweredJob& a, const LoweredJob& b) {
  const bool same_places =
      a.resource_map ? b.resource_map && a.resource_map->places == b.resource_map->places : !b.resource_map.has_value();
  return a.scenario.simulate.contention == b.scenario.simulate.contention && same_places &&
         a.durations == b.durations && a.held == b.held && a.footprints == b.footprints &&
         same_structure(a.graph, b.graph);
}

bool same_timeline(const LoweredJob& a, const LoweredJob& b) {
  return is_one_simulation(a.scenario) && is_one_simulation(b.scenario) &&
         a.scenario.simulate.iterations == b.scenario.simulate.iterations && same_step(a, b);
}

void KnownSteps::add(const Result& predicted) {
  if (is_one_simulation(predicted.scenario())) steps_.push_back({predicted.lowered, predicted.summary.iteration});
}

Time KnownSteps::iteration(const scenario::Scenario& scenario) {
  if (!is_one_simulation(scenario)) return predict(scenario, Options::time_alone()).summary.iteration;
  auto lowered = std::make_shared<LoweredJob>(prepare(scenario, nullptr, false));
  for (const auto& known : steps_)
    if (same_step(*known.lowered, *lowered)) return known.iteration;
  const auto iteration = engine::make_sim()->prepare(lowered->graph)->run(run_of(*lowered)).makespan();
  steps_.push_back({std::move(lowered), iteration});
  return iteration;
}

}  // namespace rehearsal::answer
