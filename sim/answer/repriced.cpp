#include "answer/repriced.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "answer/placed.hpp"
#include "cluster/machine.hpp"
#include "cost/cost_model.hpp"
#include "engine/sim.hpp"
#include "plan/partition.hpp"

namespace rehearsal::answer {
namespace {

// What lowering reads of a machine besides who is next to whom: how many there are of what, and what becomes part of a
// work (the time of the host).
constexpr std::string_view kLowered[] = {"cluster.launch_factor"};
// What of a framework is asked for when works are priced, and not before.
constexpr std::string_view kPriced[] = {
    "software.attention_rate",     "software.dropout_forward",        "software.dropout_backward",
    "software.optimizer_overhead", "software.dispatch_overhead",      "software.dispatch_nvlink_share",
    "software.dispatch_nic_share", "software.sharded_tensor_latency", "software.sharded_tensor_efficiency"};

template <class List>
bool holds(const List& list, std::string_view key) {
  return std::find(std::begin(list), std::end(list), key) != std::end(list);
}

// Steps whose length is more than the last end of one simulation of one graph that knows no times.
bool times_shape(const scenario::Scenario& scenario) {
  return !scenario.concrete || scenario.schedule.schedule().plan || !scenario.parallelism.layouts.empty() ||
         scenario.concrete->partition.kind == plan::Partition::Kind::balanced || !scenario.faults.empty() ||
         !scenario.concrete->cluster.groups.empty() || scenario.optimizer_sync.post_validation ||
         scenario.data_parallel.served() || scenario.simulate.iterations != 1 ||
         scenario.concrete->cluster.topology.name == "links";
}

// Places with what the resources of another machine have. Nothing where resources that had the same rate differ now, or
// the other way round: then other ranks are alike.
std::optional<graph::Places> places_on(const lower::Surroundings& around, const cluster::Machine& machine) {
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
    if (around.resources[place.origin].kind != Kind::processors) place.capacity = graph::capacity(rates[place.origin]);
  return places;
}

bool alike(const std::vector<graph::Footprint>& a, const std::vector<graph::Footprint>& b) {
  const auto same_share = [](const graph::Share& x, const graph::Share& y) {
    return x.way == y.way && x.weight == y.weight && x.hold == y.hold;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    return x.moving == y.moving && x.trailing == y.trailing && x.rate == y.rate &&
           std::equal(x.shares.begin(), x.shares.end(), y.shares.begin(), y.shares.end(), same_share);
  });
}
bool alike(const graph::Places& a, const graph::Places& b) {
  return std::equal(a.resources.begin(), a.resources.end(), b.resources.begin(), b.resources.end(),
                    [](const auto& x, const auto& y) { return x.capacity == y.capacity; });
}

}  // namespace

bool only_prices(std::string_view key) {
  return key.starts_with("cluster.") ? !holds(kLowered, key) : holds(kPriced, key);
}

std::optional<Time> repriced(const Prediction& base, const scenario::Scenario& other) {
  if (times_shape(other)) return std::nullopt;
  const auto& question = *base.question;
  const auto& c = *other.concrete;
  const cost::CostModel cost(c.cluster, c.curves, c.software, c.profile);
  const auto works = question.graph.works();
  const auto conditions = question.graph.conditions();
  const auto durations = placed(other.places.cluster, [&] { return cost.price(works, conditions); });
  const auto held = cost.held(works, conditions);
  bool same = durations == question.durations && held == question.held;  // then nothing has to be simulated
  backend::RunOptions run;
  run.durations = durations, run.held = held;
  std::vector<graph::Footprint> footprints;
  std::optional<graph::Places> places;
  if (question.surroundings) {
    places = places_on(*question.surroundings, cost.communication().machine());
    if (!places) return std::nullopt;
    footprints = cost.footprints(works, durations, conditions);
    run.footprints = footprints, run.places = &*places;
    same = same && alike(footprints, question.footprints) && alike(*places, question.surroundings->places);
    if (other.simulate.network == scenario::Network::fluid) run.engine = "fluid";
  }
  if (same) return base.summary.iteration;
  return engine::make_sim()->prepare(question.graph)->run(run).makespan();
}

}  // namespace rehearsal::answer
