#include "hosts/plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "hosts/commands.hpp"

using namespace rehearsal;
using namespace rehearsal::hosts;
using cluster::ClusterSpec;
using cluster::Fault;
using cluster::Machine;

namespace {

constexpr double kGigabit = 125e6;  // bytes/s

ClusterSpec nodes_of(std::int64_t nodes, std::int64_t gpus, std::int64_t nics, const char* topology,
                     std::map<std::string, std::vector<double>> parameters = {}) {
  ClusterSpec spec;
  spec.name = "test";
  spec.gpus_per_node = gpus, spec.nodes = nodes, spec.nics_per_node = nics;
  spec.topology = {topology, std::move(parameters)};
  spec.nvlink = Bandwidth(100e9);
  spec.nic = Bandwidth(kGigabit);
  spec.nic_latency = seconds(5e-6);
  return spec;
}

Plan of(const ClusterSpec& spec, const std::vector<Fault>& faults = {}, Settings settings = {.scale = 1}) {
  return plan(Machine(spec), faults, settings);
}

// "node0 nic0 > leaf0-0 node0-0"
std::string words(const Plan& plan, const Cable& cable) {
  return plan.places[cable.a.place].name + " " + cable.a.interface + " > " + plan.places[cable.b.place].name + " " +
         cable.b.interface;
}

std::set<std::string> all_words(const Plan& plan) {
  std::set<std::string> all;
  for (const auto& cable : plan.cables) all.insert(words(plan, cable));
  return all;
}

const Cable& cable(const Plan& plan, const std::string& wanted) {
  const auto found = std::find_if(plan.cables.begin(), plan.cables.end(),
                                  [&](const Cable& one) { return words(plan, one) == wanted; });
  REQUIRE_MESSAGE(found != plan.cables.end(), wanted);
  return *found;
}

std::string refused(const ClusterSpec& spec, const std::vector<Fault>& faults = {}, Settings settings = {}) {
  try {
    of(spec, faults, settings);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("one switch: a host per node, a link per NIC") {
  const auto plan = of(nodes_of(3, 1, 1, "one-switch"));
  CHECK(plan.hosts == 3);
  CHECK(all_words(plan) == std::set<std::string>{"node0 nic0 > leaf0-0 node0-0", "node1 nic0 > leaf0-0 node1-0",
                                                 "node2 nic0 > leaf0-0 node2-0"});
  CHECK_FALSE(plan.routed);
  for (const auto& one : plan.cables) {
    CHECK(one.rate.value() == doctest::Approx(kGigabit));
    CHECK(one.latency == seconds(5e-6));
    // 4044 bytes of a frame's 4110 are TCP's: the shaper lets 4110/4044 as much pass.
    CHECK(plan.wire(one).value() == doctest::Approx(kGigabit * 4110 / 4044));
  }
  CHECK(address(2, 0) == "10.77.0.3");
}

// Switches of 4 ports at o:1: 4 o / (1 + o) lead down. o = 1: two nodes on a leaf and two ports up, 2 Gb/s. o = 3:
// three nodes on a leaf and one port up, 1 Gb/s.
TEST_CASE("two levels: uplinks carry what oversubscription leaves") {
  for (const auto& [oversubscription, below, up] : {std::tuple{1., 2, 2.}, {3., 3, 1.}}) {
    const auto plan = of(nodes_of(6, 1, 1, "fat-tree", {{"radix", {4}}, {"oversubscription", {oversubscription}}}));
    CAPTURE(oversubscription);
    CHECK_FALSE(plan.routed);
    for (int node = 0; node < 6; ++node) {
      const auto leaf = std::to_string(node / below), here = std::to_string(node);
      cable(plan, "node" + here + " nic0 > leaf" + leaf + "-0 node" + here + "-0");
    }
    for (int leaf = 0; leaf < 6 / below; ++leaf) {
      const auto here = "leaf" + std::to_string(leaf) + "-0";
      CHECK(cable(plan, here + " spine0-0 > spine0-0 " + here).rate.value() == doctest::Approx(up * kGigabit));
    }
    CHECK(plan.cables.size() == 6u + 6u / unsigned(below));
  }
}

// Rails with two nodes on a leaf: what two NICs bring, over the oversubscription, goes on to the spines.
TEST_CASE("rails: each NIC on a leaf of its own, uplinks of 2, 1 and 0.5 Gb/s at 1, 2 and 4 : 1") {
  for (const double over : {1., 2., 4.}) {
    const auto plan = of(nodes_of(4, 2, 2, "rail-optimized", {{"nodes_per_leaf", {2}}, {"oversubscription", {over}}}));
    CAPTURE(over);
    CHECK(plan.nics == 2);
    CHECK(plan.slots == 2);
    CHECK_FALSE(plan.routed);
    CHECK(plan.cables.size() == 4 * 2 + 4);  // NICs; two leaves of each of two rails
    cable(plan, "node3 nic1 > leaf1-1 node3-1");
    CHECK(cable(plan, "leaf1-0 spine0-0 > spine0-0 leaf1-0").rate.value() == doctest::Approx(2 / over * kGigabit));
  }
}

TEST_CASE("rails that nothing joins have no spine") {
  const auto plan = of(nodes_of(3, 2, 2, "rail-only"));
  CHECK(plan.places.size() == 3 + 2);
  CHECK(plan.cables.size() == 6);
}

// Pods of two leaves of one node each (4 ports at 1 : 1 and two NICs a node): spines of a pod are one, and so are
// cores.
TEST_CASE("three levels") {
  const auto plan = of(nodes_of(4, 2, 2, "fat-tree", {{"levels", {3}}, {"radix", {4}}}));
  CHECK_FALSE(plan.routed);
  cable(plan, "leaf3-0 spine1-0 > spine1-0 leaf3-0");
  CHECK(cable(plan, "spine1-0 core0 > core0 spine1-0").rate.value() == doctest::Approx(4 * kGigabit));
}

// Leaves of two nodes with two ways up, each of one NIC's rate, and every flow hashed to one of them.
TEST_CASE("ECMP: switches route, each flow on the way that the prediction takes") {
  const auto spec = nodes_of(4, 1, 1, "fat-tree", {{"radix", {4}}, {"ecmp", {7}}});
  const auto plan = of(spec);
  REQUIRE(plan.routed);
  const Machine machine(spec);
  for (std::int64_t from = 0; from < 4; ++from)
    for (std::int64_t to = 0; to < 4; ++to) {
      if (from / 2 == to / 2) continue;
      // The way out of the leaf: the sender's own, else that of all.
      std::string taken;
      for (const auto& way : plan.ways)
        if (plan.places[way.place].name == "leaf" + std::to_string(from / 2) + "-0" &&
            way.to == address(std::size_t(to), 0) &&
            (way.from == address(std::size_t(from), 0) || (way.from.empty() && taken.empty())))
          taken = way.interface;
      const auto predicted = machine.path(from, to)[3];  // GPU, NIC, leaf, spine
      CHECK(taken == "spine0-" + std::to_string(predicted.index));
    }
  for (const auto& one : plan.cables) CHECK(one.rate.value() == doctest::Approx(kGigabit));
}

TEST_CASE("a torus routes, and its links have half of a NIC for each dimension") {
  const auto plan = of(nodes_of(4, 1, 1, "torus", {{"dims", {4}}}));
  CHECK(plan.routed);
  CHECK(cable(plan, "router0 router1 > router1 router0").rate.value() == doctest::Approx(kGigabit / 2));
}

TEST_CASE("the fastest link has 1 Gb/s unless the scale is given, and slow clusters stay as they are") {
  auto spec = nodes_of(4, 1, 1, "fat-tree", {{"radix", {4}}});  // uplinks of two NICs
  spec.nic = Bandwidth(50e9);                                   // 400 Gb/s
  CHECK(of(spec, {}, {}).scale == doctest::Approx(800));
  CHECK(of(spec, {}, {.scale = 400}).cables.front().rate.value() == doctest::Approx(kGigabit));
  spec.nic = Bandwidth(kGigabit / 4);
  CHECK(of(spec, {}, {}).scale == 1);
}

TEST_CASE("faults and loss: a slow NIC, one that is down beside one that is not, a slow cable, a lossy NIC") {
  std::vector<Fault> faults(3);
  faults[0].nic = 0, faults[0].rate = .25;
  faults[1].nic = 3, faults[1].rate = 0.;  // node 1, NIC 1
  faults[2].link = {"leaf 0.0", "spine 0.0"}, faults[2].rate = .5;
  const auto plan = of(nodes_of(4, 2, 2, "rail-optimized", {{"nodes_per_leaf", {2}}}), faults,
                       {.scale = 1, .efficiency = .9, .loss = {{5, .01}}});
  const auto& slow = cable(plan, "node0 nic0 > leaf0-0 node0-0");
  CHECK(slow.left == .25);
  CHECK(plan.wire(slow).value() == doctest::Approx(kGigabit * .25 * .9 * 4110 / 4044));
  CHECK(cable(plan, "node1 nic1 > leaf0-1 node1-1").down());
  CHECK(cable(plan, "node1 nic0 > leaf0-0 node1-0").left == 1);  // its own rate, whatever goes round the other
  CHECK(cable(plan, "leaf0-0 spine0-0 > spine0-0 leaf0-0").left == .5);
  CHECK(cable(plan, "node2 nic1 > leaf1-1 node2-1").loss == .01);
}

TEST_CASE("what cannot be hosts is refused with the reason") {
  CHECK(refused(nodes_of(1, 2, 0, "nvswitch")).find("one node") != std::string::npos);
  CHECK(refused(nodes_of(65, 1, 1, "one-switch")).find("64 hosts at most") != std::string::npos);
  CHECK(refused(nodes_of(2, 1, 1, "one-switch"), {}, {.loss = {{2, .1}}}).find("NIC 0 to 1") != std::string::npos);
}

TEST_CASE("the words of iproute2") {
  auto spec = nodes_of(2, 1, 1, "one-switch");
  spec.nic = Bandwidth(12.5e6 * 4044 / 4110);  // so that the shaper's rate is round: 100 Mb/s
  std::vector<Fault> none;
  const auto plan = of(spec, none, {.scale = 1, .loss = {{1, .5}}});
  const auto all = commands(plan, "s", false);
  REQUIRE(all.size() == 3);
  CHECK(all[2].place == "leaf0-0");
  CHECK(all[2].links ==
        "link add node0-0 mtu 4096 type veth peer name nic0 mtu 4096 netns rehearsal-s.node0\n"
        "link add node1-0 mtu 4096 type veth peer name nic0 mtu 4096 netns rehearsal-s.node1\n");
  CHECK(all[0].ip ==
        "link set dev lo up\nlink set dev nic0 addrgenmode none gso_max_size 16384\n"
        "address add 10.77.0.1/24 dev nic0\nlink set dev nic0 up\n");
  // 1 ms of 12.5 MB/s is less than a packet of 16 KB with its headers; 20 ms of it less than 256 KiB.
  CHECK(all[0].tc == "qdisc add dev nic0 root tbf rate 100000000bit burst 18022 limit 280166\n");
  // Half of 2^32 random numbers are below 2147483648.
  CHECK(all[1].tc.find("filter add dev nic0 egress bpf da bytecode '4,32 0 0 4294963256,53 1 0 2147483648,6 0 0 2,") !=
        std::string::npos);
  const auto delayed = commands(plan, "s", true);
  CHECK(delayed[0].tc ==
        "qdisc add dev nic0 root handle 1: netem delay 5us limit 100000\n"
        "qdisc add dev nic0 parent 1:1 tbf rate 100000000bit burst 18022 limit 280166\n");
  // A message leaves one NIC: the switch adds nothing.
  CHECK(delayed[2].tc.find("netem") == std::string::npos);
}
