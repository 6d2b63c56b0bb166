// Prices of single works, solved by hand on the A100 of machines.hpp.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.hpp"
#include "machines.hpp"

using namespace rehearsal;
using namespace rehearsal::test;
using doctest::Approx;

namespace {

cost::CostModel model(models::Software software = megatron_2021()) { return {dgx_a100(2), a100_curves(), software}; }
constexpr double kGap = 2e-6;

}  // namespace

TEST_CASE("a GEMM is waves of tiles") {
  // 4096 x 4096 x 4096 fp16. Rate of one SM: 312e12 x .86 / 108 x .90 = 2.236e12 FLOP/s.
  // Tiles 256 x 128: 16 x 32 = 512 tiles on 108 SMs = 5 waves; one tile 2 256 128 4096 = 268.4e6 FLOP = 120.05 us,
  // + 3 us: 615.27 us. 128 x 128 at .95: 1024 tiles = 10 waves of 63.19 + 3 = 661.9. 128 x 64 at .75: 2048 tiles = 19
  // waves of 40.02 + 3 = 817. 64 x 64 at .55: 4096 = 38 waves of 27.28 + 3 = 1151. Split in 2: 1024 = 10 waves of 60.03
  // + 3 = 630.3; in 4: 2048 = 19 waves of 30.01 + 3 = 627.2. Best 615.27; + t0 3 us + gap 2 us. Memory: 100.7 MB = 62
  // us, hidden.
  const double sm = 312e12 * .86 / 108 * .90;
  const double wanted = 3e-6 + 5 * (2. * 256 * 128 * 4096 / sm + 3e-6) + kGap;
  CHECK(wanted == Approx(620.27e-6).epsilon(1e-4));
  CHECK(model().gemm({4096, 4096, 4096, 1, Precision::fp16}) == Approx(wanted).epsilon(1e-12));
  // A weight gradient runs at 1.10 of that rate; the gap stays.
  CHECK(model().gemm({4096, 4096, 4096, 1, Precision::fp16, true}) ==
        Approx((wanted - kGap) / 1.1 + kGap).epsilon(1e-12));
}

TEST_CASE("a thin GEMM is bound by memory") {
  // 16 x 16384 x 16384: 2 (16 16384 + 16384^2 + 16 16384) B = 537.9 MB / 1.62e12 = 332 us. Computing it takes one or
  // two waves: 128 x 128 tiles would be 128 tiles = 2 waves of 256 us; 64 x 128: 128 tiles = 2 waves of 160 us = 327:
  // memory wins.
  const double bytes_moved = 2. * (16. * 16384 + 16384. * 16384 + 16. * 16384);
  CHECK(model().gemm({16, 16384, 16384, 1, Precision::fp16}) ==
        Approx(3e-6 + bytes_moved / 1.62e12 + kGap).epsilon(1e-9));
}

TEST_CASE("split-K fills an empty GPU") {
  // 256 x 256 x 16384: unsplit at best 16 tiles of 64 x 64, one wave of 2 64 64 16384 / (2.236e12 .55) = 109 us; with 4
  // splits 64 x 64 x 4096: 64 tiles, still one wave, 27.3 us. So the price must be near t0 + t_pro + 27.3 + gap = 35.3
  // us.
  const double sm = 312e12 * .86 / 108 * .90;
  CHECK(model().gemm({256, 256, 16384, 1, Precision::fp16}) ==
        Approx(3e-6 + 2. * 64 * 64 * 4096 / (sm * .55) + 3e-6 + kGap).epsilon(1e-9));
}

TEST_CASE("a precision without a peak rate is the user's to change") {
  CHECK_THROWS_WITH_AS(model().gemm({128, 128, 128, 1, Precision::fp8}), doctest::Contains("cannot compute in fp8"),
                       UserError);
}

TEST_CASE("fused attention") {
  // b 4, 32 heads, s 2048, d 128, causal: 4 4 32 2048^2 128 / 2 = 137.4 GFLOP. Rate 193e12 x 2048/2548 x .95 =
  // 147.4e12; 4 32 16 = 2048 blocks > 216: fully occupied. 932.4 us.
  const FusedAttention forward{4, 32, 2048, 2048, 128, true, false};
  const double flop = 4. * 4 * 32 * 2048. * 2048 * 128 / 2;
  CHECK(model().attention(forward) == Approx(flop / (193e12 * 2048 / 2548 * .95) + kGap).epsilon(1e-12));
  CHECK(model().attention(forward) == Approx(934.4e-6).epsilon(1e-3));
  // Backward: 2.5 times the FLOPs at 1.02, two kernels.
  FusedAttention backward = forward;
  backward.backward = true;
  CHECK(model().attention(backward) == Approx(2.5 * flop / (193e12 * 2048 / 2548 * 1.02) + 2 * kGap).epsilon(1e-12));
  // One sequence, 2 heads of 64: 2 x 16 = 32 blocks of 216 -> sqrt(32/216) = .385; small heads .9.
  const FusedAttention few{1, 2, 2048, 2048, 64, true, false};
  const double small = 4. * 2 * 2048. * 2048 * 64 / 2;
  CHECK(model().attention(few) ==
        Approx(small / (193e12 * .9 * 2048 / 2548 * .95 * std::sqrt(32. / 216)) + kGap).epsilon(1e-12));
  // Not causal: twice the FLOPs, at (205/193) and half length 180.
  FusedAttention square = forward;
  square.causal = false;
  CHECK(model().attention(square) == Approx(2 * flop / (205e12 * 2048 / 2228 * .95) + kGap).epsilon(1e-12));
  // Kernels of 2022 reach .52 of it.
  auto old = megatron_2021();
  old.attention_rate = .52;
  CHECK(model(old).attention(forward) - kGap == Approx((model().attention(forward) - kGap) / .52).epsilon(1e-12));
}

TEST_CASE("memory-bound kernels") {
  // 162 MB at 1.62 TB/s = 100 us; 3 kernels pay 3 gaps of 2 us; dropout 1.4 forward and .8 backward on the traffic
  // only.
  CHECK(model().memory_bound({Bytes(162'000'000), 3, Traffic::plain}) == Approx(106e-6));
  CHECK(model().memory_bound({Bytes(162'000'000), 3, Traffic::with_dropout_forward}) == Approx(146e-6));
  CHECK(model().memory_bound({Bytes(162'000'000), 3, Traffic::with_dropout_backward}) == Approx(86e-6));
}

TEST_CASE("collectives inside a node follow the curve") {
  using enum CollectiveKind;
  // Exactly a measured point: 8 ranks, 64 MiB, 579.9 us; halves of an all-reduce take half.
  CHECK(model().collective({all_reduce, Bytes(64 << 20), {8, 8, 1}}) == Approx(579.9e-6).epsilon(1e-9));
  CHECK(model().collective({all_gather, Bytes(64 << 20), {8, 8, 1}}) == Approx(289.95e-6).epsilon(1e-9));
  CHECK(model().collective({reduce_scatter, Bytes(64 << 20), {8, 8, 1}}) == Approx(289.95e-6).epsilon(1e-9));
  CHECK(model().collective({all_reduce, Bytes(64 << 20), {1, 1, 1}}) == 0);
}

TEST_CASE("collectives across nodes: wire against in-node part") {
  // 16 ranks on 2 nodes, 1 GiB all-reduce. Wire: 2 15/16 1.0737 GB / (200e9 .85) = 11.843 ms; in the node 8.193 ms;
  // 0.15 of the shorter = 1.229 ms; latency 2 x 25 us x min(1, 6) = 50 us. Sum 13.122 ms.
  const graph::Collective both{CollectiveKind::all_reduce, Bytes(1 << 30), {16, 8, 1}};
  const double wire = 2. * 15 / 16 * 1073741824 / 170e9;
  CHECK(model().collective(both) == Approx(wire + .15 * 8.193e-3 + 50e-6).epsilon(1e-9));
  CHECK(model().collective(both) == Approx(13.122e-3).epsilon(1e-3));
  // One rank per node on 32 nodes, 8 such groups share the NICs: wire 2 31/32 S 8 / 170e9 = 9.118 ms. A ring: 31 hops
  // of 50 us, 10.668 ms. A tree: 2 5 + 4 = 14 hops at .92 of the rate, 9.911 + .7 = 10.611 ms.
  const graph::Collective rails{CollectiveKind::all_reduce, Bytes(100'000'000), {32, 1, 8}};
  const double rail_wire = 2. * 31 / 32 * 1e8 * 8 / 170e9;
  CHECK(model().collective(rails) == Approx(rail_wire / .92 + 2 * 25e-6 * 14).epsilon(1e-9));
  // A reduce-scatter is half of a ring.
  graph::Collective half = rails;
  half.kind = CollectiveKind::reduce_scatter;
  CHECK(model().collective(half) == Approx((rail_wire + 2 * 25e-6 * 31) / 2).epsilon(1e-9));
}

TEST_CASE("messages") {
  // In the node: .25 ms + 28 MB / 80 GB/s = .6 ms.
  CHECK(model().message({Bytes(28'000'000), false, 1, Bytes(), 1}) == Approx(.6e-3));
  // Across: a GPU reaches its own NIC, 25 GB/s x .9: 22.5 MB take 1 ms, alone or with seven neighbours.
  CHECK(model().message({Bytes(22'500'000), true, 1, Bytes(), 1}) == Approx(1.25e-3));
  CHECK(model().message({Bytes(22'500'000), true, 8, Bytes(), 1}) == Approx(1.25e-3));
  // One NIC for the node: eight senders share it.
  auto one = dgx_a100(2);
  one.nics_per_node = 1;
  const cost::CostModel shared(one, a100_curves(), megatron_2021());
  CHECK(shared.message({Bytes(22'500'000), true, 8, Bytes(), 1}) == Approx(8.25e-3));
  CHECK(shared.message({Bytes(22'500'000), true, 1, Bytes(), 1}) == Approx(1.25e-3));
  // Sharded over 8 tensor ranks: then 7/8 of the whole array comes over NVLink at 220 GB/s: 176 MB -> .7 ms.
  CHECK(model().message({Bytes(22'000'000), false, 8, Bytes(176'000'000), 8}) == Approx(.25e-3 + .275e-3 + .7e-3));
}

TEST_CASE("composite works add up exactly") {
  using namespace graph;
  // Wait 5 us; memory 162 MB = 100 us + gap; a host that needs 300 us for 2 x wait + memory (112 us) idles the GPU 188
  // us.
  std::vector<Work> works{Wait{seconds(5e-6)}, MemoryBound{Bytes(162'000'000), 1, Traffic::plain}};
  works.push_back(Sequence{{{WorkId(0), 2, false}, {WorkId(1), 1, true}}});
  works.push_back(HostBound{seconds(300e-6), WorkId(2)});
  works.push_back(HostBound{seconds(50e-6), WorkId(2)});
  works.push_back(OptimizerStep{1e9, Bytes(16'200'000'000)});
  works.push_back(Receive{});
  const auto times = model().price(works);
  CHECK(times[1] == seconds(102e-6));
  CHECK(times[2] == times[0] * 2 + times[1]);
  CHECK(times[3] == seconds(188e-6));
  CHECK(times[4] == Time());
  CHECK(times[5] == seconds(12e-3));  // 10 ms of traffic + 2 ms
  CHECK(times[6] == Time());
  // The all-reduce of 240 MB above, 1.778 ms, of which 30 % show; and under pieces of 102 us: 30 of them hide it, of
  // two the second is not long enough.
  const Work reduction = Collective{CollectiveKind::all_reduce, Bytes(240'000'000), {8, 8, 1}};
  const cost::CostModel ring(dgx_a100(), {}, megatron_2021());
  const std::vector<Work> joined{MemoryBound{Bytes(162'000'000), 1, Traffic::plain}, reduction, Exposed{WorkId(1), .3},
                                 Pipelined{WorkId(0), 30, WorkId(1)}, Pipelined{WorkId(0), 2, WorkId(1)}};
  const auto overlapped = ring.price(joined);
  CHECK(overlapped[2] == seconds(.3 * to_seconds(overlapped[1])));
  CHECK(overlapped[3] == overlapped[0] * 30);
  CHECK(overlapped[4] == overlapped[0] + overlapped[1]);
  const std::vector<Work> forward_reference{HostBound{Time(), WorkId(0)}};
  CHECK_THROWS_AS(model().price(forward_reference), InternalError);
}

TEST_CASE("assumptions carry their values") {
  auto machine = dgx_a100(2);
  machine.gpu.assumed = {"gemm_efficiency"};
  machine.assumed = {"nic.bandwidth"};
  machine.sources["nic.bandwidth"] = "data sheet";
  const auto all = cost::CostModel(machine, a100_curves(), megatron_2021()).assumptions();
  CHECK(all.size() == 7);  // two keys, dropout, interference, two for collectives across nodes, optimizer
  CHECK(all[0] == "GPU a100-80g: gemm_efficiency = 0.9 of peak is assumed.");
  CHECK(all[1] == "Cluster dgx-a100-80g: nic.bandwidth = 25 GB/s is assumed (data sheet).");
}
