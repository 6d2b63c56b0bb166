// Every registered topology on several machines: connected, routes as short as Dijkstra's over all links that routes
// show, levels that agree with flows counted on routes, and the promised bisection (a maximum flow) and diameter.
#include <doctest/doctest.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <map>
#include <random>

#include "base/error.hpp"
#include "cluster/machine.hpp"
#include "cluster/registry.hpp"
#include "cluster/written_graph.hpp"

using namespace rehearsal;
using namespace rehearsal::cluster;

namespace {

struct Size {
  std::int64_t nodes, gpus, nics;
  double nvlink_us;
};
constexpr Size kSizes[] = {{1, 8, 8, 2},  {1, 2, 1, 2}, {1, 5, 1, 2}, {2, 8, 8, 2},  {3, 8, 8, .5}, {4, 8, 4, 2},
                           {5, 4, 2, .5}, {2, 4, 8, 2}, {6, 1, 1, 2}, {4, 16, 8, 1}, {9, 8, 1, 2},  {16, 8, 8, 2}};

ClusterSpec describe(const std::string& topology, const Size& size) {
  ClusterSpec spec;
  spec.name = "test";
  spec.topology.name = topology;
  if (topology == "nvl-rack") spec.topology.parameters["gpus"] = {double(2 * size.gpus)};
  if (topology == "dragonfly") spec.topology.parameters["nodes_per_group"] = {4};
  if (topology == "fat-tree") spec.topology.parameters["radix"] = {double(4 * size.nics)};
  if (topology == "rail-only" || topology == "rail-optimized") {
    const bool narrow = size.nodes == 3 || size.nodes > 6;  // a leaf's uplink below a NIC
    spec.topology.parameters["nodes_per_leaf"] = {narrow ? 1. : 4.};
    spec.topology.parameters["oversubscription"] = {narrow ? 1.5 : 1.};
  }
  spec.nodes = size.nodes, spec.gpus_per_node = size.gpus, spec.nics_per_node = size.nics;
  spec.nvlink = Bandwidth(400e9), spec.nic = Bandwidth(25e9);
  spec.nvlink_latency = seconds(size.nvlink_us * 1e-6), spec.nic_latency = seconds(25e-6);
  for (std::int64_t g = 0; g < spec.gpus() && topology == "links"; ++g)
    spec.written.push_back({"gpu" + std::to_string(g), "hub", spec.nic, seconds(1e-6)});
  return spec;
}

// Machines that a topology accepts; at least two are required of each.
template <class Check>
void for_every(Check check) {
  for (const auto& [name, topology] : registry()) {
    int accepted = 0;
    for (const Size& size : kSizes) {
      std::optional<Machine> machine;
      try {
        machine.emplace(describe(name, size));
      } catch (const UserError&) {
        continue;
      }
      ++accepted;
      CAPTURE(name);
      CAPTURE(size.nodes);
      CAPTURE(size.gpus);
      CAPTURE(size.nics);
      check(topology, *machine);
    }
    CHECK(accepted > 1);
  }
}

// Every link that some route uses, once for both ways.
std::vector<ListedLink> links(const Machine& machine) {
  std::map<std::pair<Device, Device>, Link> all;
  for (std::int64_t a = 0; a < machine.gpus(); ++a)
    for (std::int64_t b = 0; b < machine.gpus(); ++b)
      for (std::int64_t stripe = 0; stripe < machine.stripes(); ++stripe)
        for (const auto& hop : machine.route(a, b, stripe)) {
          const auto ends = hop.from < hop.to ? std::pair{hop.from, hop.to} : std::pair{hop.to, hop.from};
          const auto [at, fresh] = all.try_emplace(ends, hop.link);
          CHECK(at->second.rate == hop.link.rate);
          CHECK(at->second.latency == hop.link.latency);
        }
  std::vector<ListedLink> list;
  for (const auto& [ends, link] : all) list.push_back({ends.first, ends.second, link});
  return list;
}

// Bytes per second from the first floor(domains/2) domains (or GPUs of a single one) to the rest, one way.
double bisection(const Machine& machine) {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using Edge = boost::property<boost::edge_capacity_t, std::int64_t,
                               boost::property<boost::edge_residual_capacity_t, std::int64_t,
                                               boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>;
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge>;
  const WrittenGraph written(links(machine));
  const std::size_t n = written.vertices().size();
  Graph graph(n + 2);
  auto capacity = get(boost::edge_capacity, graph);
  auto reverse = get(boost::edge_reverse, graph);
  const auto add = [&](std::size_t a, std::size_t b, std::int64_t rate) {
    const auto there = boost::add_edge(a, b, graph).first, back = boost::add_edge(b, a, graph).first;
    capacity[there] = rate, capacity[back] = 0;
    reverse[there] = back, reverse[back] = there;
  };
  for (const auto& [ends, link] : written.links())
    add(written.vertices().at(ends.first), written.vertices().at(ends.second),
        static_cast<std::int64_t>(link.rate.value()));
  const std::int64_t half = machine.domains() == 1 ? machine.domain() / 2 : machine.domains() / 2 * machine.domain();
  constexpr std::int64_t kUnlimited = std::int64_t(1) << 50;
  for (std::int64_t r = 0; r < machine.gpus(); ++r) {
    const auto at = written.vertices().find(machine.gpu(r));
    if (at == written.vertices().end()) continue;
    if (r < half)
      add(n, at->second, kUnlimited);
    else
      add(at->second, n + 1, kUnlimited);
  }
  return double(boost::push_relabel_max_flow(graph, n, n + 1));
}

const Topology& acting(const Machine& machine) { return machine.domains() == 1 ? machine.inside() : machine.fabric(); }

}  // namespace

TEST_CASE("every entry explains itself and its parameters") {
  for (const auto& [name, topology] : registry()) {
    CAPTURE(name);
    CHECK(topology.summary.ends_with('.'));
    for (const auto& p : topology.parameters) {
      CHECK_FALSE(p.help.empty());
      CHECK(p.low <= p.fallback);
      CHECK(p.fallback <= p.high);
    }
  }
}

TEST_CASE("every pair of GPUs is connected by a route as short as Dijkstra's") {
  for_every([](const Topology&, const Machine& machine) {
    const WrittenGraph oracle(links(machine));
    std::mt19937 random(7);
    for (int i = 0; i < 40; ++i) {
      const auto a = std::int64_t(random()) % machine.gpus(), b = std::int64_t(random()) % machine.gpus();
      const auto route = machine.route(a, b);
      CHECK(route.empty() == (a == b));
      if (a == b) continue;
      Device here = machine.gpu(a);
      Time way, shortest;
      for (const auto& hop : route) {
        CHECK(hop.from == here);
        here = hop.to, way += hop.link.latency;
      }
      CHECK(here == machine.gpu(b));
      const auto path = oracle.route(machine.gpu(a), machine.gpu(b));
      for (std::size_t k = 1; k < path.size(); ++k) shortest += oracle.link(path[k - 1], path[k]).latency;
      // Inside a node nothing goes out over NICs, and without spines a rail is changed over NVLink, longer or not.
      if (machine.level(a, b) >= 0 && machine.fabric().name != "rail-only") CHECK(way == shortest);
      CHECK(way >= shortest);
    }
  });
}

TEST_CASE("levels agree with flows counted on routes") {
  int compared = 0;
  for_every([&](const Topology&, const Machine& machine) {
    // Adaptive routing spreads flows that a single route does not show.
    if (machine.levels().empty() || machine.fabric().name == "dragonfly") return;
    for (std::uint32_t ranks = 2; ranks <= machine.gpus(); ++ranks)
      for (std::uint32_t stride = 1; ranks * stride <= machine.gpus(); ++stride) {
        if (machine.gpus() % (ranks * stride) != 0) continue;
        const GroupShape group{ranks, stride};
        const auto& reach = machine.reach(group);
        // Groups that divide every domain alike; others stand differently from place to place.
        bool even = !reach.out.empty();
        for (const auto& border : reach.out) even = even && ranks % border.members == 0;
        for (const auto& level : machine.levels())
          even = even && machine.gpus() % level.width == 0 && level.width % (stride * reach.in_domain) == 0;
        if (!even || machine.domain() % stride != 0) continue;
        Bandwidth least = reach.out[0].rate;
        for (const auto& border : reach.out) least = std::min(least, border.rate);
        CAPTURE(ranks);
        CAPTURE(stride);
        CHECK(machine.counted(group).value() == doctest::Approx(least.value()).epsilon(1e-9));
        ++compared;
      }
  });
  CHECK(compared > 100);
}

TEST_CASE("the promised diameter is the longest route") {
  for_every([](const Topology&, const Machine& machine) {
    if (!acting(machine).promise) return;
    std::int64_t longest = 0;
    for (std::int64_t a = 0; a < std::min<std::int64_t>(machine.gpus(), machine.domain()); ++a)
      for (std::int64_t b = 0; b < machine.gpus(); ++b)
        longest = std::max<std::int64_t>(longest, std::ssize(machine.route(a, b)));
    CHECK(acting(machine).promise(machine).diameter_hops == longest);
  });
}

TEST_CASE("the promised bisection is a maximum flow") {
  for_every([](const Topology&, const Machine& machine) {
    if (!acting(machine).promise) return;
    CHECK(acting(machine).promise(machine).bisection.value() == doctest::Approx(bisection(machine)).epsilon(1e-6));
  });
}

TEST_CASE("16 384 GPUs have routes and levels without a table") {
  const Machine machine(describe("rail-optimized", {2048, 8, 8, 2}));
  CHECK(machine.gpus() == 16384);
  CHECK(machine.route(0, 16383).size() == 6);
  CHECK(machine.reach({2048, 8}).out.size() == 2);
}
