// The oracle and the tables on machines small enough for paper.
#include <doctest/doctest.h>

#include "base/error.hpp"
#include "cluster/cluster.hpp"

using namespace rehearsal;
using namespace rehearsal::cluster;

namespace {

ClusterSpec machine(std::int64_t nodes, std::int64_t gpus, std::int64_t nics, double nvlink_us) {
  ClusterSpec spec;
  spec.name = "test";
  spec.topology = "rail-optimized";
  spec.nodes = nodes, spec.gpus_per_node = gpus, spec.nics_per_node = nics;
  spec.nvlink = Bandwidth(300e9), spec.nic = Bandwidth(25e9);
  spec.nvlink_latency = seconds(nvlink_us * 1e-6), spec.nic_latency = seconds(4e-6);
  return spec;
}

std::vector<DeviceKind> stops(const Cluster& cluster, std::int64_t from, std::int64_t to) {
  std::vector<DeviceKind> kinds;
  for (const LinkId l : cluster.route(cluster.gpu(from), cluster.gpu(to)))
    kinds.push_back(cluster.devices()[cluster.links()[l.index()].to.index()].kind);
  return kinds;
}

using enum DeviceKind;

}  // namespace

TEST_CASE("Dijkstra: least latency, then fewest links") {
  // 0 -> 1 -> 3 costs 2 us, 0 -> 2 -> 3 costs 3 us, 0 -> 3 directly 2 us: as slow as the first, but one link.
  Cluster c(ClusterSpec{});
  for (std::uint32_t i = 0; i < 5; ++i) c.add_device({gpu, 0, i});
  const auto join = [&](std::size_t a, std::size_t b, double us) {
    c.add_link(NodeId(a), NodeId(b), Bandwidth(1e9 * double(a + b)), seconds(us * 1e-6));
  };
  join(0, 1, 1), join(1, 3, 1), join(0, 2, 1), join(2, 3, 2), join(0, 3, 2);
  const auto route = shortest_route(c, NodeId(0), NodeId(3));
  REQUIRE(route.size() == 1);
  CHECK(c.latency(route) == seconds(2e-6));
  CHECK(c.bandwidth(route) == Bandwidth(3e9));
  CHECK(shortest_route(c, NodeId(2), NodeId(1)).size() == 2);
  CHECK(shortest_route(c, NodeId(0), NodeId(4)).empty());
  CHECK_THROWS_WITH_AS(c.route(NodeId(0), NodeId(4)), doctest::Contains("no path"), UserError);
  CHECK(c.route(NodeId(0), NodeId(0)).empty());
}

TEST_CASE("links are found from either end") {
  Cluster c(ClusterSpec{});
  for (std::uint32_t i = 0; i < 4; ++i) c.add_device({gpu, 0, i});
  for (std::size_t i = 1; i < 4; ++i) c.add_link(NodeId(0), NodeId(i), Bandwidth(1e9), Time());
  const auto out = c.link(NodeId(0), NodeId(2)), in = c.link(NodeId(2), NodeId(0));
  REQUIRE((out && in));
  CHECK(c.links()[out->index()].to == NodeId(2));
  CHECK(c.links()[in->index()].to == NodeId(0));
  CHECK_FALSE(c.link(NodeId(1), NodeId(2)));
}

TEST_CASE("routes of a rail-optimised fabric") {
  // Four GPUs and NICs a node; NVLink 2 us against two switch hops of .5 us: another rail is reached over a spine.
  const auto far = build(machine(3, 4, 4, 2));
  CHECK(stops(far, 0, 3) == std::vector{nvswitch, gpu});
  CHECK(stops(far, 1, 5) == std::vector{nic, leaf, nic, gpu});
  CHECK(stops(far, 0, 7) == std::vector{nic, leaf, spine, leaf, nic, gpu});
  CHECK(far.latency(far.route(far.gpu(0), far.gpu(7))) == seconds(5e-6));  // 4 us + 2 x .5 us
  CHECK(far.bandwidth(far.route(far.gpu(0), far.gpu(7))) == Bandwidth(3 / 4. * 25e9));
  // NVLink .8 us: first to the neighbour on the right rail.
  const auto near = build(machine(3, 4, 4, .8));
  CHECK(stops(near, 0, 7) == std::vector{nvswitch, gpu, nic, leaf, nic, gpu});
  // Two GPUs share a NIC: ranks 0 and 1 both on rail 0.
  const auto shared = build(machine(2, 4, 2, 2));
  CHECK(stops(shared, 0, 5) == std::vector{nic, leaf, nic, gpu});
  CHECK(shared.machine_of(5) == 1);
}

TEST_CASE("descriptions that cannot be built") {
  CHECK_THROWS_WITH_AS(build(machine(2, 4, 3, 2)), doctest::Contains("nics_per_node"), UserError);
  CHECK_THROWS_AS(build(machine(2, 4, 0, 2)), UserError);
  auto spec = machine(2, 4, 4, 2);
  spec.topology = "nvswitch";
  CHECK_THROWS_WITH_AS(build(spec), doctest::Contains("use 'rail-optimized'"), UserError);
  spec.topology = "rail-optimised";
  CHECK_THROWS_WITH_AS(build(spec), doctest::Contains("did you mean 'rail-optimized'"), UserError);
  spec = machine(0, 4, 4, 2);
  CHECK_THROWS_AS(build(spec), UserError);
}
