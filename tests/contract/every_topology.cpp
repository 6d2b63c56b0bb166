// Every registered topology on several machines: connected, closed-form routes as short as Dijkstra's, and the promised
// bisection (a maximum flow) and diameter.
#include <doctest/doctest.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <random>

#include "base/error.hpp"
#include "cluster/registry.hpp"

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
  spec.topology = topology;
  spec.nodes = size.nodes, spec.gpus_per_node = size.gpus, spec.nics_per_node = size.nics;
  spec.nvlink = Bandwidth(400e9), spec.nic = Bandwidth(25e9);
  spec.nvlink_latency = seconds(size.nvlink_us * 1e-6), spec.nic_latency = seconds(25e-6);
  return spec;
}

// Machines that a topology accepts; at least one is required of each.
template <class Check>
void for_every(Check check) {
  for (const auto& [name, topology] : registry()) {
    int accepted = 0;
    for (const Size& size : kSizes) {
      const auto spec = describe(name, size);
      try {
        topology.check(spec);
      } catch (const UserError&) {
        continue;
      }
      ++accepted;
      CAPTURE(name);
      CAPTURE(size.nodes);
      CAPTURE(size.gpus);
      CAPTURE(size.nics);
      check(topology, spec, build(spec));
    }
    CHECK(accepted > 1);
  }
}

// Bytes per second from the first floor(nodes/2) machines (or GPUs of a single one) to the rest, one way.
double bisection(const Cluster& cluster) {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using Edge = boost::property<boost::edge_capacity_t, std::int64_t,
                               boost::property<boost::edge_residual_capacity_t, std::int64_t,
                                               boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>;
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge>;
  const std::size_t n = cluster.devices().size();
  Graph graph(n + 2);
  auto capacity = get(boost::edge_capacity, graph);
  auto reverse = get(boost::edge_reverse, graph);
  const auto add = [&](std::size_t a, std::size_t b, std::int64_t rate) {
    const auto there = boost::add_edge(a, b, graph).first, back = boost::add_edge(b, a, graph).first;
    capacity[there] = rate, capacity[back] = 0;
    reverse[there] = back, reverse[back] = there;
  };
  for (const auto& link : cluster.links())
    add(link.from.index(), link.to.index(), static_cast<std::int64_t>(link.bandwidth.value()));
  const auto& spec = cluster.spec();
  const std::int64_t half = spec.nodes == 1 ? spec.gpus_per_node / 2 : spec.nodes / 2 * spec.gpus_per_node;
  constexpr std::int64_t kUnlimited = std::int64_t(1) << 50;
  for (std::int64_t r = 0; r < cluster.gpus(); ++r) {
    if (r < half)
      add(n, cluster.gpu(r).index(), kUnlimited);
    else
      add(cluster.gpu(r).index(), n + 1, kUnlimited);
  }
  return double(boost::push_relabel_max_flow(graph, n, n + 1));
}

}  // namespace

TEST_CASE("every pair of GPUs is connected by a route as short as Dijkstra's") {
  for_every([](const Topology&, const ClusterSpec& spec, const Cluster& cluster) {
    REQUIRE(cluster.gpus() == spec.gpus());
    std::mt19937 random(7);
    for (int i = 0; i < 40; ++i) {
      const auto a = cluster.gpu(random() % cluster.gpus()), b = cluster.gpu(random() % cluster.gpus());
      const auto route = cluster.route(a, b);
      if (a == b) {
        CHECK(route.empty());
        continue;
      }
      REQUIRE(!route.empty());
      NodeId here = a;
      for (const LinkId l : route) {
        CHECK(cluster.links()[l.index()].from == here);
        here = cluster.links()[l.index()].to;
      }
      CHECK(here == b);
      CHECK(cluster.latency(route) == cluster.latency(shortest_route(cluster, a, b)));
    }
  });
}

TEST_CASE("the promised diameter is the longest route") {
  for_every([](const Topology& topology, const ClusterSpec& spec, const Cluster& cluster) {
    std::int64_t longest = 0;
    for (std::int64_t a = 0; a < std::min<std::int64_t>(cluster.gpus(), spec.gpus_per_node); ++a)
      for (std::int64_t b = 0; b < cluster.gpus(); ++b)
        longest = std::max<std::int64_t>(longest, std::ssize(cluster.route(cluster.gpu(a), cluster.gpu(b))));
    CHECK(topology.promise(spec).diameter_hops == longest);
  });
}

TEST_CASE("the promised bisection is a maximum flow") {
  for_every([](const Topology& topology, const ClusterSpec& spec, const Cluster& cluster) {
    CHECK(topology.promise(spec).bisection.value() == doctest::Approx(bisection(cluster)).epsilon(1e-6));
  });
}

TEST_CASE("16 384 GPUs have tables and routes without a search") {
  const auto cluster = build(describe("rail-optimized", {2048, 8, 8, 2}));
  CHECK(cluster.gpus() == 16384);
  CHECK(cluster.devices().size() == 2048 * 17 + 16);
  CHECK(cluster.route(cluster.gpu(0), cluster.gpu(16383)).size() == 6);
}
