#include "answer/repriced.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "answer/placed.hpp"
#include "answer/simulated.hpp"
#include "answer/stage_costs.hpp"
#include "cluster/machine.hpp"
#include "cost/cost_model.hpp"
#include "engine/sim.hpp"
#include "scenario/fields.hpp"

namespace rehearsal::answer {
namespace {

// False for steps whose length is not simply the last end in one simulation of one graph.
bool is_one_graph(const scenario::Scenario& scenario) {
  const bool tries_all =
      !scenario.parallelism.layouts.empty() && scenario.resharding.strategy == reshard::Strategy::automatic;
  return scenario.concrete && !tries_all && scenario.faults.empty() && scenario.concrete->cluster.groups.empty() &&
         !scenario.optimizer_sync.post_validation && scenario.data_parallel.synchronous() &&
         scenario.simulate.iterations == 1 && scenario.concrete->cluster.topology.name != "links";
}

// The pipeline ranks' programs. Placement and sharing are left out: on the same machine they do not depend on its
// numbers, as long as equal resources stay equal.
graph::TaskGraph programs_of(const scenario::Scenario& scenario, StageCosts staged) {
  return placed(scenario.places.schedule,
                [&] {
                  return std::move(staged.lowering)
                      .lower(scenario.schedule.schedule(), staged.problem, {scenario.simulate.detail, true, false});
                })
      .graph;
}

// Whether the scenarios differ in numbers of the cluster alone: rates, times and factors, which nothing but prices
// sees.
bool differ_in_prices(const scenario::Scenario& a, const scenario::Scenario& b) {
  using Kind = fields::Form::Kind;
  const auto is_price = [](const fields::Field& field) {
    const auto kind = field.form.kind;
    return field.key.starts_with("cluster.") &&
           (kind == Kind::time || kind == Kind::bandwidth || kind == Kind::flop_rate || kind == Kind::number);
  };
  const auto& fields = scenario::scenario_fields().fields;
  return std::all_of(fields.begin(), fields.end(), [&](const fields::Field& field) {
    return !field.acts || is_price(field) || field.get(&a) == field.get(&b);
  });
}

Repricing::Stages stages_of(const scenario::Scenario& scenario, const StageCosts& staged) {
  const auto& problem = staged.problem;
  const auto works = staged.lowering.works();
  const auto& transfers = staged.lowering.transfers();
  Repricing::Stages stages{{works.begin(), works.end()}, staged.layers, problem.activation,
                           problem.weight_hold,          Fingerprint{}, {transfers.roles(), {}}};
  auto& channels = stages.transfers.channels;
  for (const auto role : transfers.role_of()) channels.add(role);
  for (const auto& [kind, from, to] : transfers.channels()) {
    channels.add(std::uint64_t(kind));
    for (const auto& end : {from, to}) channels.add(end.rank), channels.add(end.peer), channels.add(end.number);
  }
  auto& print = stages.orders;
  placed(scenario.places.schedule, [&] {
    const auto schedule = schedule::planned(scenario.schedule.schedule(), problem);
    for (std::uint32_t r = 0; r < problem.ranks; ++r) {
      print.add(r);
      for (auto order = schedule.order(problem, r); order.next();) {
        const auto& action = order.value();
        print.add(std::uint64_t{action.microbatch} << 32 | std::uint64_t{action.stage} << 16 |
                  static_cast<std::uint64_t>(action.op) << 1 | std::uint64_t{action.overlaps_next});
      }
    }
    for (std::uint32_t s = 0; s < problem.stages(); ++s) print.add(schedule::rank_of(schedule.placement, problem, s));
  });
  for (const auto wire : problem.wire) print.add(wire);
  for (const auto& edge : problem.edges)
    print.add(std::uint64_t{edge.from} << 32 | edge.to), print.add(std::uint64_t{edge.wire} << 1 | edge.turns);
  return stages;
}

// The resource table with the rates of another machine. Nothing if resources with equal rates now differ, or the other
// way round: then the classes of equal ranks change.
std::optional<graph::ResourceTable> places_on(const lower::ResourceMap& around, const cluster::Machine& machine) {
  using Kind = cluster::Resource::Kind;
  auto places = around.places;
  std::map<std::pair<Kind, double>, double> now;
  std::map<std::pair<Kind, double>, double> before;
  std::vector<Bandwidth> rates;
  for (const auto& resource : around.resources) {
    const auto rate = rates.emplace_back(cluster::rate(resource, machine));
    const auto to = now.try_emplace({resource.kind, resource.rate.value()}, rate.value()).first->second;
    const auto from = before.try_emplace({resource.kind, rate.value()}, resource.rate.value()).first->second;
    if (to != rate.value() || from != resource.rate.value()) return std::nullopt;
  }
  for (auto& place : places.resources)
    if (!around.resources[place.origin].counts_processors()) place.capacity = graph::capacity(rates[place.origin]);
  return places;
}

bool alike(const graph::ResourceTable& a, const graph::ResourceTable& b) {
  return std::equal(a.resources.begin(), a.resources.end(), b.resources.begin(), b.resources.end(),
                    [](const auto& x, const auto& y) { return x.capacity == y.capacity; });
}

}  // namespace

Repricing::Repricing(const Result& base) : base_(base) {
  if (!is_one_graph(base.scenario())) return;
  auto staged = stage(base.scenario());
  stages_ = stages_of(base.scenario(), staged);
  programs_.emplace(programs_of(base.scenario(), std::move(staged)));
  simulator_ = engine::make_sim()->prepare(base.graph());
}

// What the works of the base are in the other scenario. A number of the cluster reaches them by way of the stages only,
// which is quickly seen; one of the framework may be a size of any, and then all is lowered. Between stages of other
// layouts messages are planned by times: they must be the same, from the same ranks.
std::optional<Repricing::Works> Repricing::works_of(const scenario::Scenario& other) const {
  const auto all = [](const graph::TaskGraph& graph) { return Works(graph.works().begin(), graph.works().end()); };
  auto staged = stage(other);
  const bool prices = differ_in_prices(base_.scenario(), other);
  if (prices || !other.parallelism.layouts.empty()) {
    const auto stages = stages_of(other, staged);
    if (prices && stages == stages_) return all(base_.graph());
    if (stages.transfers != stages_.transfers) return std::nullopt;
  }
  const auto programs = programs_of(other, std::move(staged));
  if (!same_structure(programs, *programs_)) return std::nullopt;
  auto works = all(programs);
  const auto before = all(*programs_), of_base = all(base_.graph());
  if (works == before) return of_base;
  if (before != of_base) return std::nullopt;  // the base has finer tasks than its programs (lower/lowering.cpp)
  return works;
}

Time Repricing::simulated(const backend::RunOptions& run) const {
  Fingerprint asked;
  for (const auto& times : {run.durations, run.held})
    for (const Time time : times) asked.add(std::uint64_t(time.count()));
  for (const auto& footprint : run.footprints) {
    asked.add(std::uint64_t(footprint.moving.count())), asked.add(std::uint64_t(footprint.trailing.count()));
    asked.add(std::uint64_t(footprint.rate)), asked.add(footprint.shares.size());
    for (const auto& share : footprint.shares)
      asked.add(std::uint64_t(share.way)), asked.add(std::uint64_t(share.weight)), asked.add(std::uint64_t(share.hold));
  }
  if (run.places)
    for (const auto& place : run.places->resources)
      asked.add(std::uint64_t(place.capacity >> 64)), asked.add(std::uint64_t(place.capacity));
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = known_.find(asked); found != known_.end()) return found->second;
  }
  const Time time = simulator_->run(run).makespan();
  const std::scoped_lock lock(mutex_);
  known_.emplace(asked, time);
  return time;
}

std::optional<Time> Repricing::iteration(const scenario::Scenario& other) const {
  if (!simulator_ || !is_one_graph(other)) return std::nullopt;
  const auto works_now = works_of(other);
  if (!works_now) return std::nullopt;
  const std::span<const graph::Work> works = *works_now;
  const auto& lowered = *base_.lowered;
  const auto& c = *other.concrete;
  const cost::CostModel cost(c.cluster, c.curves, c.framework, c.profile);
  const auto conditions = lowered.graph.conditions();
  const auto durations = placed(other.places.cluster, [&] { return cost.price(works, conditions); });
  const auto held = cost.held(works, conditions);
  bool same = durations == lowered.durations && held == lowered.held;  // then no simulation is needed
  backend::RunOptions run;
  run.durations = durations, run.held = held;
  std::vector<graph::Footprint> footprints;
  std::optional<graph::ResourceTable> places;
  if (lowered.resource_map) {
    places = places_on(*lowered.resource_map, cost.communication().machine());
    if (!places) return std::nullopt;
    footprints = cost.footprints(works, durations, conditions);
    run.footprints = footprints, run.places = &*places;
    same = same && footprints == lowered.footprints && alike(*places, lowered.resource_map->places);
    // Shared throughout or where something is overloaded: the same to the picosecond (sim/design/sharing.md), and a
    // number that is turned hardly ever takes all contention away. So it is not asked whether there is any.
    if (other.simulate.contention == scenario::Contention::on || base_.timeline.engine == "fluid") run.engine = "fluid";
  }
  if (same) return base_.summary.iteration;
  return simulated(run);
}

}  // namespace rehearsal::answer
