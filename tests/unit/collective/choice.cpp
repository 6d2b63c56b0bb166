// Collectives from links alone, solved by hand, and a library's choice inside a node.
#include <doctest/doctest.h>

#include <cmath>

#include "../../links.hpp"
#include "base/error.hpp"
#include "collective/choice.hpp"

using namespace rehearsal;
using namespace rehearsal::collective;
using doctest::Approx;
using enum CollectiveKind;

namespace {

Wires wires(double rate, double step = test::Fit{}.step) {
  Wires w;
  w.rate = Bandwidth(rate), w.latency = step;
  return w;
}

Runtime runtime(int generation, const test::Fit& fit = {}, Version version = kNewestNccl) {
  return {test::nvlink(generation, fit), test::nccl(), version};
}

}  // namespace

TEST_CASE("the switch adds large all-reduces of enough GPUs where it can") {
  const Bytes small(1 << 20), large(16 << 20);
  const auto choice = [](CollectiveKind kind, std::uint32_t ranks, Bytes size, int number,
                         Version version = kNewestNccl) {
    return inside_node(kind, ranks, size, wires(test::as_sold(number)), runtime(number, {}, version)).algorithm->name;
  };
  CHECK(choice(all_reduce, 8, large, 4) == "nvls-all-reduce");
  CHECK(choice(all_reduce, 5, large, 4) == "nvls-all-reduce");
  CHECK(choice(all_reduce, 4, large, 4) == "ring-all-reduce");
  CHECK(choice(all_reduce, 5, large, 5) == "ring-all-reduce");
  CHECK(choice(all_reduce, 6, Bytes(256 << 20), 5) == "nvls-all-reduce");
  CHECK(choice(all_reduce, 8, large, 3) == "ring-all-reduce");
  // Rings start faster. That the switch is worth it from about 4 MiB on follows from both times (2 MiB on H200).
  CHECK(choice(all_reduce, 8, small, 4) == "ring-all-reduce");
  CHECK(choice(all_reduce, 8, large, 4, {2, 12}) == "ring-all-reduce");  // NVLS came with NCCL 2.17
  // The halves, and so sequence parallelism, run rings.
  CHECK(choice(all_gather, 8, large, 4) == "ring-all-gather");
  CHECK(choice(reduce_scatter, 8, large, 5) == "ring-reduce-scatter");
  CHECK(choice(all_to_all, 8, large, 4) == "pairwise-all-to-all");
  CHECK(choice(broadcast, 8, large, 4) == "chain-broadcast");
}

TEST_CASE("what a library has not, and a switch that is not there, run nowhere") {
  auto asked = runtime(4);
  const auto chosen = [&] { return inside_node(all_reduce, 8, Bytes(1 << 30), wires(450e9), asked).algorithm->name; };
  CHECK(chosen() == "nvls-all-reduce");
  asked.links.switch_share = 0;
  CHECK(chosen() == "ring-all-reduce");
  asked = runtime(4);
  asked.library.algorithms.erase("nvls-all-reduce"), asked.library.title = "RCCL";
  CHECK(chosen() == "ring-all-reduce");
  for (const auto& candidate : candidates(all_reduce, 8, Bytes(1 << 30), wires(450e9), asked))
    if (candidate.algorithm->name == "nvls-all-reduce") CHECK(reason(candidate, 8, asked) == "not in RCCL");
  asked.library.algorithms.erase("ring-all-reduce");
  CHECK_THROWS_AS(chosen(), UserError);
  // Trees of two nodes came later than those of more.
  const auto& tree = registry().at("tree-all-reduce");
  CHECK(refusal(tree, {16, 8}, runtime(4, {}, {2, 8})) == Refusal::too_new);
  CHECK(refusal(tree, {24, 8}, runtime(4, {}, {2, 8})) == Refusal::none);
  CHECK(refusal(tree, {16, 8}, runtime(4, {}, {2, 9})) == Refusal::none);
}

TEST_CASE("a broadcast follows its first piece") {
  // 8 ranks, 1 GiB at 100 GB/s without protocol: 7 hops of 1 us and a MiB each, then 1023 more MiB.
  const auto& chain = registry().at("chain-broadcast");
  Wires w = wires(100e9, 1e-6);
  const double piece = double(1 << 20) / 100e9;
  CHECK(chain.time(8, Bytes(1 << 30), w) == Approx(7 * (1e-6 + piece) + 1023 * piece).epsilon(1e-9));
  // Near the wire at any number of ranks, and a small array passes as a whole.
  CHECK(chain.time(512, Bytes(1 << 30), w) < 1.6 * 1024 * piece);
  CHECK(chain.time(4, Bytes(1000), w) == Approx(3 * (1e-6 + 1000 / 100e9)).epsilon(1e-9));
}

TEST_CASE("time from the links") {
  // Round constants: launch 10 us, step 1 us, ramp 100 us, the rate NCCL counts on; 4 GPUs of 300 x .8 = 240 GB/s.
  const test::Fit round{10e-6, 1e-6, 100e-6, 1, 20e-6, 25e-6, .8};
  const auto a100 = runtime(3, round);
  // All-reduce of 160 MB: w = 2 3/4 160 MB / 240 GB/s = 1 ms; 10 + 6 + 1000 + sqrt(100 x 1000) us.
  const auto ring = inside_node(all_reduce, 4, Bytes(160'000'000), wires(300e9, 1e-6), a100);
  CHECK(ring.seconds == Approx(1016e-6 + std::sqrt(.1) * 1e-3).epsilon(1e-9));
  // A gather has half the wire and half the steps.
  const auto half = inside_node(all_gather, 4, Bytes(160'000'000), wires(300e9, 1e-6), a100);
  CHECK(half.seconds == Approx(513e-6 + std::sqrt(100e-6 * 500e-6)).epsilon(1e-9));
  // In the switch: 450 x .85 x .8 = 306 GB/s; w = 272 MB (1 + 1/8) / 306 GB/s = 1 ms; 20 + 1000 + sqrt(25 x 1000) us.
  const auto nvls = inside_node(all_reduce, 8, Bytes(272'000'000), wires(450e9, 1e-6), runtime(4, round));
  CHECK(nvls.algorithm->name == "nvls-all-reduce");
  CHECK(nvls.seconds == Approx(1020e-6 + std::sqrt(25e-6 * 1e-3)).epsilon(1e-9));
  CHECK(inside_node(all_reduce, 1, Bytes(1000), wires(300e9), a100).seconds == 0);
  CHECK(inside_node(all_reduce, 8, Bytes(), wires(300e9), a100).seconds == 0);
}

TEST_CASE("all-to-all: each border takes what crosses it") {
  // 16 ranks, 8 in a node, 16 MB each, an MB for every other. Inside 7 MB at 100 GB/s; out of a node 8 x 8 MB at 32
  // GB/s = 2 ms; 10 us of the way.
  Wires w;
  w.rate = Bandwidth(100e9), w.net_latency = 10e-6, w.net_rate = Bandwidth(4e9);
  w.crossings = {{8, Bandwidth(32e9)}};
  const auto choice = across_nodes(all_to_all, {16, 8}, Bytes(16'000'000), w, runtime(4));
  CHECK(choice.seconds == Approx(2e-3 + 10e-6).epsilon(1e-9));
}
