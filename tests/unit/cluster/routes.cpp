// Routes, levels and paths of groups on machines small enough to check by hand.
#include <doctest/doctest.h>

#include "base/error.hpp"
#include "cluster/machine.hpp"
#include "cluster/written_graph.hpp"

using namespace rehearsal;
using namespace rehearsal::cluster;

namespace {

ClusterSpec describe(std::int64_t nodes, std::int64_t gpus, std::int64_t nics, double nvlink_us) {
  ClusterSpec spec;
  spec.name = "test";
  spec.topology.name = "rail-optimized";
  spec.nodes = nodes, spec.gpus_per_node = gpus, spec.nics_per_node = nics;
  spec.nvlink = Bandwidth(300e9), spec.nic = Bandwidth(25e9);
  spec.nvlink_latency = seconds(nvlink_us * 1e-6), spec.nic_latency = seconds(4e-6);
  return spec;
}

ClusterSpec on(TopologyChoice topology, std::int64_t nodes, std::int64_t gpus = 4, std::int64_t nics = 4) {
  auto spec = describe(nodes, gpus, nics, 2);
  spec.topology = std::move(topology);
  return spec;
}

std::vector<DeviceKind> stops(const Machine& machine, std::int64_t from, std::int64_t to) {
  std::vector<DeviceKind> kinds;
  for (const auto& hop : machine.route(from, to)) kinds.push_back(hop.to.kind);
  return kinds;
}

Time latency(const Machine& machine, std::int64_t from, std::int64_t to) {
  Time sum;
  for (const auto& hop : machine.route(from, to)) sum += hop.link.latency;
  return sum;
}

using enum DeviceKind;

}  // namespace

TEST_CASE("Dijkstra: least latency, then fewest links; equal links add up") {
  // 0 -> 1 -> 3 costs 2 us, 0 -> 2 -> 3 costs 3 us, 0 -> 3 directly 2 us: as slow as the first, but one link.
  const auto at = [](std::uint32_t i) { return Device{named, 0, i}; };
  const auto link = [&](std::uint32_t a, std::uint32_t b, double us) {
    return ListedLink{at(a), at(b), {Bandwidth(1e9 * (a + b)), seconds(us * 1e-6)}};
  };
  const WrittenGraph graph(
      {link(0, 1, 1), link(1, 3, 1), link(0, 2, 1), link(2, 3, 2), link(0, 3, 2), link(0, 3, 5), link(7, 8, 1)});
  CHECK(graph.route(at(0), at(3)) == Path{at(0), at(3)});
  CHECK(graph.link(at(3), at(0)).rate == Bandwidth(6e9));
  CHECK(graph.link(at(3), at(0)).latency == seconds(2e-6));
  CHECK(graph.route(at(2), at(1)).size() == 3);
  CHECK(graph.route(at(0), at(8)).empty());
  CHECK(graph.route(at(0), at(99)).empty());
}

TEST_CASE("routes of a rail-optimised fabric") {
  // Four GPUs and NICs a node; NVLink 2 us against two switch hops of .5 us: another rail is reached over a spine.
  const Machine far(describe(3, 4, 4, 2));
  CHECK(stops(far, 0, 3) == std::vector{nvswitch, gpu});
  CHECK(stops(far, 1, 5) == std::vector{nic, leaf, nic, gpu});
  CHECK(stops(far, 0, 7) == std::vector{nic, leaf, spine, leaf, nic, gpu});
  CHECK(latency(far, 0, 7) == seconds(5e-6));  // 4 us + 2 x .5 us
  // NVLink .8 us: first to the neighbour on the right rail.
  CHECK(stops(Machine(describe(3, 4, 4, .8)), 0, 7) == std::vector{nvswitch, gpu, nic, leaf, nic, gpu});
  // Without spines always.
  CHECK(stops(Machine(on({"rail-only", {}}, 3)), 0, 7) == std::vector{nvswitch, gpu, nic, leaf, nic, gpu});
  // Two GPUs share a NIC: ranks 0 and 1 both on rail 0.
  CHECK(stops(Machine(describe(2, 4, 2, 2)), 0, 5) == std::vector{nic, leaf, nic, gpu});
  // Leaves of two nodes: the third is on another.
  const Machine leaves(on({"rail-optimized", {{"nodes_per_leaf", {2}}}}, 4));
  CHECK(stops(leaves, 0, 4) == std::vector{nic, leaf, nic, gpu});
  CHECK(stops(leaves, 0, 8) == std::vector{nic, leaf, spine, leaf, nic, gpu});
}

TEST_CASE("a fat tree of switches of 8 ports") {
  // Four NICs a node: one node on a leaf of 8 ports without oversubscription, two with 3 : 1 (6 ports down, floor).
  const Machine full(on({"fat-tree", {{"radix", {8}}}}, 8));
  CHECK(full.levels().size() == 2);
  CHECK(full.levels()[0].width == 4);
  CHECK(full.levels()[1].out == Bandwidth(100e9));
  CHECK(stops(full, 0, 4) == std::vector{nic, leaf, spine, leaf, nic, gpu});
  CHECK_THROWS_WITH_AS(Machine(on({"fat-tree", {{"radix", {8}}}}, 9)), doctest::Contains("levels: 3"), UserError);
  // Three levels: pods of 4 leaves.
  const Machine pods(on({"fat-tree", {{"radix", {8}}, {"levels", {3}}}}, 8));
  REQUIRE(pods.levels().size() == 3);
  CHECK(pods.levels()[1].width == 16);
  CHECK(stops(pods, 0, 16) == std::vector{nic, leaf, spine, core, spine, leaf, nic, gpu});
  // One NIC a node and 3 : 1: six nodes on a leaf, two ports up.
  const Machine thin(on({"fat-tree", {{"radix", {8}}, {"oversubscription", {3}}}}, 12, 4, 1));
  CHECK(thin.levels()[0].width == 24);
  CHECK(thin.levels()[1].out == Bandwidth(50e9));
}

TEST_CASE("the paths of groups and messages") {
  // A node of 4 GPUs with 4 NICs of 25 GB/s: a group of stride 2 has the two beside its GPUs.
  const Machine rails(describe(4, 4, 4, 2));
  const auto& half = rails.reach({8, 2});
  CHECK(half.in_domain == 2);
  CHECK(half.port == Bandwidth(300e9));
  REQUIRE(half.out.size() == 1);
  CHECK(half.out[0].rate == Bandwidth(50e9));
  CHECK(half.out[0].latency == seconds(4e-6));
  CHECK(rails.reach({4, 1}).out.empty());
  // On links of a cube mesh: a pair on one NVLink of 6 has 25 GB/s, GPUs 0 and 3 two.
  const Machine mesh(on({"hybrid-cube-mesh", {}}, 1, 8, 1));
  CHECK(mesh.reach({2, 1}).port == Bandwidth(50e9));
  CHECK(mesh.reach({8, 1}).port == Bandwidth(300e9));
  CHECK(mesh.reach(0, 3).rate == Bandwidth(100e9));
  CHECK(mesh.alike(0, 3) != mesh.alike(0, 1));
  // A shared PCIe switch: 4 GPUs, 2 switches; a ring crosses each uplink once.
  const Machine host(on({"pcie-host", {{"switches", {2}}}}, 1));
  CHECK(host.reach(0, 2).rate == Bandwidth(300e9));
  CHECK(host.reach({4, 1}).port == Bandwidth(300e9));
  CHECK(host.reach({2, 2}).port == Bandwidth(300e9));
  // Racks of two nodes under one NVLink domain.
  const Machine rack(on({"nvl-rack", {{"gpus", {8}}}}, 4));
  CHECK(rack.domain() == 8);
  CHECK(rack.reach({8, 1}).out.empty());
  CHECK(rack.reach({16, 1}).out[0].rate == Bandwidth(200e9));
  CHECK_FALSE(rack.reach(0, 7).leaves_domain);
  // A torus of 4 x 2 nodes: a link of 100/4 GB/s; a ring over all goes 1, 1, 1 and 2 hops in turn.
  const Machine torus(on({"torus", {{"dims", {4, 2}}}}, 8));
  CHECK(stops(torus, 0, 8) == std::vector{nic, router, router, router, nic, gpu});
  CHECK(torus.reach({32, 1}).out[0].rate == Bandwidth(25e9));
  // More than two groups of a dragonfly: half of 2 x 100 GB/s.
  const Machine fly(on({"dragonfly", {{"nodes_per_group", {2}}}}, 6));
  CHECK(fly.levels()[1].out == Bandwidth(100e9));
}

TEST_CASE("links written out") {
  // gpu0 - gpu1 - gpu2 - gpu3 in a line: rings come back over every link.
  auto line = on({"links", {}}, 1);
  const auto link = [](const char* a, const char* b) { return WrittenLink{a, b, Bandwidth(10e9), seconds(1e-6)}; };
  line.written = {link("gpu0", "gpu1"), link("gpu1", "gpu2"), link("gpu2", "gpu3")};
  const Machine machine(line);
  CHECK(stops(machine, 0, 3) == std::vector{gpu, gpu, gpu});
  CHECK(machine.reach({4, 1}).port == Bandwidth(10e9));
  CHECK(machine.reach({2, 2}).port == Bandwidth(10e9));
  line.written.pop_back();
  CHECK_THROWS_WITH_AS(Machine{line}, doctest::Contains("gpu3"), UserError);
  line.written.push_back(link("gpu3", "somewhere"));
  CHECK_THROWS_WITH_AS(Machine{line}, doctest::Contains("not to gpu3"), UserError);
  line.written.push_back(link("gpu9", "somewhere"));
  CHECK_THROWS_WITH_AS(Machine{line}, doctest::Contains("gpu0 to gpu3"), UserError);
}

TEST_CASE("descriptions that cannot be built") {
  CHECK_THROWS_WITH_AS(Machine(describe(2, 4, 3, 2)), doctest::Contains("nic.per_node"), UserError);
  CHECK_THROWS_AS(Machine(describe(2, 4, 0, 2)), UserError);
  CHECK_THROWS_WITH_AS(Machine(on({"rail-optimised", {}}, 2)), doctest::Contains("did you mean 'rail-optimized'"),
                       UserError);
  CHECK_THROWS_AS(Machine(describe(0, 4, 4, 2)), UserError);
  CHECK_THROWS_WITH_AS(Machine(on({"torus", {{"dims", {3, 2}}}}, 4)), doctest::Contains("6 places"), UserError);
  CHECK_THROWS_WITH_AS(Machine(on({"nvl-rack", {{"gpus", {6}}}}, 4)), doctest::Contains("whole number"), UserError);
  CHECK_THROWS_WITH_AS(Machine(on({"hybrid-cube-mesh", {}}, 1, 16, 4)), doctest::Contains("at most 8"), UserError);
  auto spec = on({"rail-optimized", {}}, 2);
  spec.node_topology.name = "torus";
  CHECK_THROWS_WITH_AS(Machine{spec}, doctest::Contains("joins nodes"), UserError);
}
