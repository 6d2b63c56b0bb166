// Collectives and messages across nodes, solved by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.hpp"
#include "cluster/fields.hpp"
#include "cost/constants.hpp"
#include "machines.hpp"

using namespace rehearsal;
using namespace rehearsal::cost;
using doctest::Approx;
using enum CollectiveKind;

namespace {

// 200 GB/s out of a node at .85 = 170 GB/s; inside: 1 GB among 8 in 8 ms, among 4 in 6 ms, among 2 in 5 ms, whatever
// the slope, since only this size is asked for.
CostModel model(std::int64_t nodes, std::int64_t nics_per_group = 0, double fabric = 1) {
  auto machine = test::dgx_a100(nodes);
  machine.nics_per_group = nics_per_group, machine.fabric = fabric;
  collective::SizeCurves curves;
  curves.name = "by hand";
  curves.measured_on = {"nvswitch", 8, machine.nvlink, machine.nvlink_latency, machine.interconnect, kNewestNccl, {},
                        {},         {}};
  for (const auto& [ranks, ms] : {std::pair{8U, 8.}, {4U, 6.}, {2U, 5.}})
    curves.measured[{all_reduce, ranks}] = {{Bytes(1'000'000'000), seconds(ms * 1e-3)}};
  return {machine, curves, test::megatron_2021()};
}
const Bytes kSize(1'000'000'000);

// `per_node` of the ranks in each node, in as many groups as share its NICs.
GroupShape group(std::uint32_t ranks, std::uint32_t per_node, std::uint32_t concurrent) {
  return {ranks, per_node == 1 ? 8 : concurrent};
}
// All-gathers always use rings.
double gather_time(const CostModel& m, std::uint32_t ranks, std::uint32_t per_node, std::uint32_t concurrent) {
  return m.collective({all_gather, kSize, group(ranks, per_node, concurrent)});
}
// On two nodes: one of `pieces` of the time inside a node does not hide behind the wire. One hop between the nodes, and
// in the other node one step for each of its other members.
double ring(double wire, double inside, double pieces, double members) {
  return wire + inside / pieces + 25e-6 + (members - 1) * 1.22e-6;
}
// 1 GB in chunks of 2 MiB for each rank and channel, n - 1 steps of 2 slices.
double pieces(double channels, double ranks) { return 1e9 / (channels * ranks * (2 << 20)) * (ranks - 1) * 2; }

}  // namespace

TEST_CASE("all GPUs of a node, or one of each, use every NIC") {
  // 16 ranks on 2 nodes: 15/16 GB / 170 GB/s = 5.515 ms, inside half of 8 ms. 16 channels send chunks of 2 MiB in 2
  // slices: 1 GB / (16 x 16 x 2 MiB) = 1.86 loops of 15 steps, 56 pieces.
  const double whole = ring(.9375e9 / 170e9, 4e-3, pieces(16, 16), 8);
  CHECK(gather_time(model(2), 16, 8, 1) == Approx(whole).epsilon(1e-9));
  CHECK(gather_time(model(2, 1), 16, 8, 1) == Approx(whole).epsilon(1e-9));
  // Eight groups of 2 ranks: 1/2 x 8 GB / 170 GB/s = 23.53 ms + 25 us, nothing inside the node.
  const double rails = 4e9 / 170e9 + 25e-6;
  CHECK(gather_time(model(2), 2, 1, 8) == Approx(rails).epsilon(1e-9));
  CHECK(gather_time(model(2, 1), 2, 1, 8) == Approx(rails).epsilon(1e-9));
}

TEST_CASE("a group of several but not all GPUs of a node reaches few NICs") {
  // Two groups of 8 ranks, 4 in a node: 7/8 x 2 GB = 1.75 GB over 170 GB/s, or over 2 or 4 NICs of 25 GB/s at .85. Two
  // channels a NIC.
  CHECK(gather_time(model(2), 8, 4, 2) == Approx(ring(1.75e9 / 170e9, 3e-3, pieces(8, 8), 4)).epsilon(1e-9));
  CHECK(gather_time(model(2, 1), 8, 4, 2) == Approx(ring(1.75e9 / 42.5e9, 3e-3, pieces(2, 8), 4)).epsilon(1e-9));
  CHECK(gather_time(model(2, 2), 8, 4, 2) == Approx(ring(1.75e9 / 85e9, 3e-3, pieces(4, 8), 4)).epsilon(1e-9));
  // Four groups of 4 ranks, 2 in a node: 4 NICs; 3/4 x 4 GB = 3 GB.
  CHECK(gather_time(model(2, 1), 4, 2, 4) == Approx(ring(3e9 / 85e9, 2.5e-3, pieces(2, 4), 2)).epsilon(1e-9));
  CHECK(model(2, 1).why({all_gather, kSize, group(4, 2, 4)}) == "1 hop, over 1 of 8 NICs of a node");
  // More than there are: all.
  CHECK(gather_time(model(2, 8), 4, 2, 4) == Approx(ring(3e9 / 170e9, 2.5e-3, pieces(4, 4), 2)).epsilon(1e-9));
}

TEST_CASE("a fabric of collisions slows the wire alone") {
  const double factor = cluster::kFabricEcmp / cluster::kFabricInfiniband;  // .6/.96 = .625: 106.25 GB/s
  CHECK(factor == Approx(.625));
  CHECK(gather_time(model(2, 0, factor), 16, 8, 1) ==
        Approx(ring(.9375e9 / 106.25e9, 4e-3, pieces(16, 16), 8)).epsilon(1e-9));
}

TEST_CASE("between two nodes a tree sends half of what a ring does") {
  // 16 ranks: the array leaves each node once, 1 GB / 170 GB/s / .92 = 6.394 ms, hidden behind 8 ms inside but for one
  // of 1 GB / 16 / 512 KiB = 119.2 pieces; up and down, 2 hops of 25 us. A ring: 11.029 ms between.
  const auto two = model(2).choose({all_reduce, kSize, group(16, 8, 1)});
  CHECK(two.algorithm->name == "tree-all-reduce");
  CHECK(two.seconds == Approx(8e-3 + 1e9 / 170e9 / .92 / (1e9 / 16 / (512 << 10)) + 2 * 25e-6).epsilon(1e-9));
  CHECK(model(2).why({all_reduce, kSize, group(16, 8, 1)}) == "half of what a ring sends between two nodes");
  // From three on a node sends twice the array: the ring, 2 x 23/24 GB, in both phases.
  const auto three = model(3).choose({all_reduce, kSize, group(24, 8, 1)});
  CHECK(three.algorithm->name == "ring-all-reduce");
  CHECK(three.seconds ==
        Approx(2. * 23 / 24 * 1e9 / 170e9 + 8e-3 / (2 * pieces(16, 24)) + 4 * (25e-6 + 7 * 1.22e-6)).epsilon(1e-9));
}

TEST_CASE("trees from where their hops are worth their rate") {
  // One GPU a node behind a NIC of 200 GB/s, k = 64: 63 hops against 6, 50 us each. 1 GB: ring 2 x 63/64 /
  // 170 = 11.581
  // + 3.15 ms = 14.731 ms; tree 2/170/.92 + .3 = 13.088 ms. Ten times as much: 118.96 against 128.18 ms: the ring.
  auto machine = test::dgx_a100(64);
  machine.nics_per_node = 1, machine.nic = Bandwidth(200e9);
  const CostModel m(machine, {}, {});
  const auto small = m.choose({all_reduce, kSize, group(64, 1, 1)});
  CHECK(small.algorithm->name == "tree-all-reduce");
  CHECK(small.seconds == Approx(2. / 170 / .92 + 6 * 50e-6).epsilon(1e-9));
  const auto large = m.choose({all_reduce, Bytes(10'000'000'000), group(64, 1, 1)});
  CHECK(large.algorithm->name == "ring-all-reduce");
  CHECK(large.seconds == Approx(2. * 63 / 64 * 10 / 170 + 63 * 50e-6).epsilon(1e-9));
  CHECK(m.why({all_reduce, Bytes(10'000'000'000), group(64, 1, 1)}) == "63 hops");
  CHECK(m.why({all_reduce, kSize, group(64, 1, 1)}) == "6 hops at 0.92 of the rate instead of 63");
  // An all-gather has no tree. Few bytes: PAT, log2 64 / 3.5 x 25 us + 64 x 2.8 us against 63 x 25 us.
  const auto gather = m.choose({all_gather, Bytes(1000), group(64, 1, 1)});
  CHECK(gather.algorithm->name == "pat-all-gather");
  CHECK(gather.seconds == Approx(63. / 64 * 1000 / 170e9 / .75 + 6 / 3.5 * 25e-6 + 64 * 2.8e-6).epsilon(1e-9));
  CHECK(m.choose({all_gather, kSize, group(64, 1, 1)}).algorithm->name == "ring-all-gather");
}

TEST_CASE("inside a node the name is NCCL's choice, the time the measured one") {
  const auto choice = model(1).choose({all_reduce, kSize, group(8, 8, 1)});
  CHECK(choice.algorithm->name == "ring-all-reduce");  // A100: its switches cannot add
  CHECK(choice.seconds == Approx(8e-3));
  CHECK(model(1).choose({all_reduce, kSize, group(1, 1, 1)}).algorithm == nullptr);
}

TEST_CASE("a run names each algorithm once, with its reason") {
  const std::vector<graph::Work> works{graph::Collective{all_reduce, kSize, group(8, 8, 1)},
                                       graph::Collective{all_reduce, Bytes(1000), group(8, 8, 1)},
                                       graph::Collective{all_reduce, kSize, group(4, 2, 4)},
                                       graph::Collective{all_reduce, kSize, group(1, 1, 1)}, graph::Receive{}};
  const auto named = model(2, 1).algorithms(works);
  REQUIRE(named.size() == 1);
  CHECK(
      named[0] ==
      "Collectives run as NCCL would choose: ring-all-reduce of 8 ranks in a node (a ring of 8); tree-all-reduce of 4 "
      "ranks on 2 nodes (half of what a ring sends between two nodes, over 1 of 8 NICs of a node).");
  CHECK(model(2).algorithms({}).empty());
}

TEST_CASE("a cluster without curves is priced from its links, one without links is refused") {
  auto machine = test::dgx_a100();
  const CostModel cost(machine, {}, {});
  // 2 x 7/8 GB at 300 x .8 x 1.012 = 242.88 GB/s: w = 7.2052 ms; 3.7 us + 14 x 1.22 us + w + sqrt(35 us x w).
  const double w = 1.75e9 / 242.88e9;
  CHECK(cost.collective({all_reduce, kSize, group(8, 8, 1)}) ==
        Approx(3.7e-6 + 14 * 1.22e-6 + w + std::sqrt(35e-6 * w)).epsilon(1e-9));
  machine.nvlink = Bandwidth();
  CHECK_THROWS_AS(CostModel(machine, {}, {}), UserError);
}

TEST_CASE("a message has the NICs beside its GPU") {
  // 90 MB at .9 of 25 GB/s = 4 ms + .25 ms + 25 us of the way; 80 GB/s inside the node is no limit.
  const Bytes size(90'000'000);
  const auto time = [&](std::int64_t nics, double fabric = 1) {
    auto machine = test::dgx_a100(2);
    machine.nics_per_node = nics, machine.fabric = fabric;
    return CostModel(machine, {}, {}).message({size, 0, 8, Bytes(), 1});
  };
  CHECK(time(8) == Approx(4.275e-3).epsilon(1e-9));
  CHECK(time(16) == Approx(2.275e-3).epsilon(1e-9));  // two NICs each
  // Where GPUs share one, it has all of it by itself.
  CHECK(time(4) == Approx(4.275e-3).epsilon(1e-9));
  CHECK(time(1) == Approx(4.275e-3).epsilon(1e-9));
  // Half of the fabric's rate: the wire takes twice as long, the fixed part does not.
  CHECK(time(8, .5) == Approx(8.275e-3).epsilon(1e-9));
  // Inside the node: 90 MB at 80 GB/s, 1.22 us of the way; at 40 GB/s where the link has no more.
  CHECK(model(2).message({size, 0, 1, Bytes(), 1}) == Approx(.25e-3 + 1.22e-6 + 90e6 / 80e9).epsilon(1e-9));
  auto slow = test::dgx_a100();
  slow.nvlink = Bandwidth(40e9);
  CHECK(CostModel(slow, {}, {}).message({size, 0, 1, Bytes(), 1}) ==
        Approx(.25e-3 + 1.22e-6 + 90e6 / 40e9).epsilon(1e-9));
}

TEST_CASE("a message holds its wire for its bytes, not for latency, host or gather") {
  // 90 MB at .9 of 25 GB/s: 4 ms, of 4.275 ms and 3/4 of 360 MB to gather. At 80 GB/s of a copying kernel: 1.125 ms.
  const CostModel m(test::dgx_a100(2), {}, {});
  const graph::Message out{Bytes(90'000'000), 0, 8, Bytes(360'000'000), 4};
  CHECK(m.on_the_wire(out) == Approx(4e-3).epsilon(1e-9));
  CHECK(m.message(out) > 5e-3);
  CHECK(m.on_the_wire({Bytes(90'000'000), 0, 1, Bytes(), 1}) == Approx(90e6 / 80e9).epsilon(1e-9));
  CHECK(m.on_the_wire({Bytes(0), 0, 8, Bytes(), 1}) == 0);
  const std::vector<graph::Work> works{graph::FixedDelay{Time(5)}, out, graph::Receive{}};
  CHECK(m.held(works) == std::vector{Time(), seconds(m.on_the_wire(out)), Time()});
}

TEST_CASE("measured curves correct the formulas: exact on their links, moved by others") {
  const GroupShape eight{8, 1};
  const auto on = [&](double nvlink, double latency_us) {
    auto machine = test::dgx_a100();
    machine.nvlink = Bandwidth(nvlink), machine.nvlink_latency = seconds(latency_us * 1e-6);
    return CostModel(machine, test::a100_curves(), {}).collective({all_reduce, Bytes(1 << 30), eight});
  };
  CHECK(on(300e9, 1.22) == 8193e-6);  // the table's
  // By hand: w = 1.75 GiB / (300 x .8 x 1.012 GB/s) = 7.7365 ms, T = 3.7 + 14 x 1.22 + 7736.5 + sqrt(35 x 7736.5) us.
  const auto form = [](double nvlink, double step) {
    const double w = 1.75 * (1 << 30) / (nvlink * .8 * 1.012);
    return 3.7e-6 + 14 * step + w + std::sqrt(35e-6 * w);
  };
  CHECK(on(3e9, 1.22) == Approx(8193e-6 * form(3e9, 1.22e-6) / form(300e9, 1.22e-6)).epsilon(1e-9));
  CHECK(on(300e9, 2000) == Approx(8193e-6 * form(300e9, 2e-3) / form(300e9, 1.22e-6)).epsilon(1e-9));
}

TEST_CASE("an algorithm that joins the registry changes the price, and one that NCCL has not yet does not") {
  collective::Registry shelf("collective");
  for (const auto& [name, algorithm] : collective::registry()) shelf.add(algorithm);
  collective::Algorithm magic = collective::registry().at("ring-all-reduce");
  magic.name = "magic-all-reduce";
  magic.time = [](collective::Shape, Bytes, const collective::Wires& w) { return w.fixed + 1e-6; };
  magic.protocol = [](const cluster::Interconnect&) { return collective::Protocol{}; };
  shelf.add(magic);
  const auto priced = [&](Version version) {
    models::Framework framework;
    framework.nccl = version;
    auto machine = test::dgx_a100();
    machine.library.algorithms["magic-all-reduce"] = {{3, 0}, {3, 0}};
    return CostModel(machine, {}, framework, nullptr, shelf).choose({all_reduce, kSize, {8, 1}});
  };
  CHECK(priced({3, 0}).algorithm->name == "magic-all-reduce");
  CHECK(priced({3, 0}).seconds == Approx(1e-6));
  CHECK(priced({2, 30}).algorithm->name == "ring-all-reduce");
}

TEST_CASE("oversubscribed leaves limit groups that cross them, and no others") {
  // Four nodes of 200 GB/s on two leaves, uplinks 4 : 1: out of two nodes 100 GB/s.
  auto machine = test::dgx_a100(4);
  machine.topology = {"rail-optimized", {{"nodes_per_leaf", {2}}, {"oversubscription", {4}}}};
  const CostModel m(machine, {}, {});
  const auto plain = model(4);
  // One ring over all 32: 2 x 31/32 GB over 100 GB/s at .85 instead of 200 GB/s, one of 62 steps of 2 slices inside; 3
  // hops of 26 us instead of 25.
  const double w = 2. * 31 / 32 * 1e9;
  const auto time = m.choose({all_reduce, kSize, {32, 1}}).seconds;
  const auto inside = m.choose({all_reduce, kSize, {8, 1}}).seconds;
  CHECK(time == Approx(w / 85e9 + inside / 124 + 2 * 3 * (26e-6 + 7 * 1.22e-6)).epsilon(1e-9));
  CHECK(m.why({all_reduce, kSize, {32, 1}}) == "3 hops, limited from leaf to spine");
  // Two neighbouring nodes share a leaf.
  CHECK(m.choose({all_reduce, kSize, {16, 1}}).seconds ==
        Approx(inside + 1e9 / 170e9 / .92 / (1e9 / 16 / (512 << 10)) + 2 * 25e-6).epsilon(1e-9));
}

TEST_CASE("NICs that take time to fill add the root of the time on the wire, by every door") {
  auto machine = test::dgx_a100(4);
  const CommunicationModel plain(machine, {}, kNewestNccl);
  machine.nic_ramp = seconds(100e-6);
  const CommunicationModel ramped(machine, {}, kNewestNccl);
  const GroupShape all{32, 1}, node{8, 1};
  // A ring over all 32: 2 x 31/32 GB out of each node over 170 GB/s.
  const double more = std::sqrt(100e-6 * 2. * 31 / 32 * 1e9 / 170e9);
  CHECK(ramped.choose(all, all_reduce, kSize).seconds ==
        Approx(plain.choose(all, all_reduce, kSize).seconds + more).epsilon(1e-9));
  CHECK(ramped.choose(node, all_reduce, kSize).seconds == plain.choose(node, all_reduce, kSize).seconds);
  const auto quote = ramped.quote(all, all_reduce, kSize);
  for (const auto& candidate : quote.candidates)
    if (candidate.algorithm == quote.choice.algorithm) {
      CHECK(candidate.seconds == Approx(quote.choice.seconds).epsilon(1e-9));
      CHECK(candidate.form->ramp == Approx(more).epsilon(1e-9));
    }
}
