// Prices of single works, solved by hand on the A100 of machines.hpp.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.hpp"
#include "cost/gemm.hpp"
#include "machines.hpp"

using namespace rehearsal;
using namespace rehearsal::test;
using doctest::Approx;

namespace {

cost::CostModel model(models::Framework framework = megatron_2021()) { return {dgx_a100(2), a100_curves(), framework}; }
constexpr double kGap = 2e-6;
// FLOP/s: of one SM at the clock of products that pause often, and what power allows the whole GPU.
constexpr double kSm = 312e12 * .95 * .951 / 108, kLimit = 312e12 * .79 * .951;
double norm(double a, double b, double order = 4) {
  return std::pow(std::pow(a, order) + std::pow(b, order), 1 / order);
}
// Both limits of a product in training.
double limited(double unlimited, double flops) { return norm(unlimited, flops / kLimit, 8); }

}  // namespace

TEST_CASE("a GEMM is waves of tiles, and no faster than its energy") {
  // 4096 x 4096 x 4096 fp16. Rate of one SM: 312e12 x .95 x .951 / 108 = 2.6100e12 FLOP/s. Tiles 256 x 128: 16 x 32 =
  // 512 tiles on 108 SMs = 5 waves; one tile 2 256 128 4096 = 268.4e6 FLOP = 102.85 us, + 5.1 us: 539.7 us. 128 x 128
  // loses 1 + .73 (1 + 1 - 1.5) = 1.365: 1024 tiles = 10 waves of 70.19 + 2.55 = 727; smaller ones lose more. 256 x 128
  // split in 2: 1024 = 10 waves of 51.4 + 5.1 = 565, in 4: 19 of 30.8 = 585; all above. Memory: 100.7 MB = 62.1 us adds
  // nothing to see. + t0 .3 us: 540.1. Power: 137.4e9 FLOP / (312e12 x .79 x .951 = 234.4e12) = 586.3 us; norm of order
  // 8: 586.3 (1 + .9212^8)^(1/8) = 617.7. + gap 2 us.
  const double compute = 5 * (2. * 256 * 128 * 4096 / kSm + 5.1e-6), memory = 3. * 2 * 4096 * 4096 / 1.62e12;
  const double wanted = limited(.3e-6 + norm(compute, memory), 2. * 4096 * 4096 * 4096) + kGap;
  CHECK(wanted == Approx(619.7e-6).epsilon(1e-4));
  CHECK(model().gemm({4096, 4096, 4096, 1, Precision::fp16}) == Approx(wanted).epsilon(1e-12));
  // A weight gradient runs at 1.13 of that rate; the gap stays.
  CHECK(model().gemm({4096, 4096, 4096, 1, Precision::fp16, true}) ==
        Approx((wanted - kGap) / 1.13 + kGap).epsilon(1e-12));
}

TEST_CASE("a thin GEMM is bound by memory") {
  // 16 x 16384 x 16384: 2 (16 16384 + 16384^2 + 16 16384) B = 537.9 MB / 1.62e12 = 332.1 us. Computing the tiles,
  // mostly empty, hides under it but for the end: 128 x 256 in 5 pieces, 320 = three waves of 82.3 + 5.1 = 262.2 us,
  // norm of order 4 with 332.1: 361.7 us. The partial sums of 5 pieces are 4 5 16 16384 B = 5.2 MB = 3.2 us, + 3 us.
  // Sum 367.9 with .3; energy for 8.6e9 FLOP is 37 us, not to be seen.
  const double memory = 2. * (16. * 16384 + 16384. * 16384 + 16. * 16384) / 1.62e12;
  const double compute = 3 * (2. * 128 * 256 * 16384 / 5 / kSm + 5.1e-6);
  const double sums = 4. * 5 * 16 * 16384 / 1.62e12 + 3e-6;
  const double wanted = limited(.3e-6 + norm(compute, memory) + sums, 2. * 16 * 16384 * 16384) + kGap;
  CHECK(wanted == Approx(369.9e-6).epsilon(5e-3));
  CHECK(model().gemm({16, 16384, 16384, 1, Precision::fp16}) == Approx(wanted).epsilon(1e-12));
}

TEST_CASE("heads of any width are priced by their width") {
  // Scores of 16 heads, and probabilities times values: 108 columns between 104 and 112, in tokens likewise.
  for (const bool scores : {true, false}) {
    const auto time = [&](std::int64_t head, std::int64_t tokens) {
      return model().gemm({tokens, scores ? tokens : head, scores ? head : tokens, 16, Precision::fp16});
    };
    CHECK(time(104, 2048) <= time(108, 2048));
    CHECK(time(108, 2048) <= time(112, 2048));
    CHECK(time(112, 2047) <= time(112, 2048));
    CHECK(time(112, 2049) < 1.15 * time(112, 2048));  // a row and a column of tiles more, of 8 and 16
  }
}

TEST_CASE("a piece of K is no shorter than 256: where it begins to pay nothing jumps") {
  const auto time = [](std::int64_t k) { return model().gemm({256, 256, k, 1, Precision::fp16}); };
  for (const std::int64_t k : {256, 512, 768, 1024, 3072}) {
    CHECK(time(k - 1) <= time(k));
    CHECK(time(k) <= time(k + 1));
    CHECK(time(k + 1) <= time(k) * (1 + 2. / double(k)));
  }
}

TEST_CASE("a weight gradient is no faster than its traffic") {
  // 16384 x 16384 x 16 writes 537 MB of 538: 332.1 us at 1.62 TB/s, which 1.13 times the rate would undercut.
  const double memory = 2. * (16384. * 16384 + 2 * 16384. * 16) / 1.62e12;
  CHECK(model().gemm({16384, 16384, 16, 1, Precision::fp16, true}) >= memory + kGap);
}

TEST_CASE("fused attention in fp32 reaches the same share of its peak, and moves twice the bytes") {
  auto machine = dgx_a100();
  machine.gpu.peak[Precision::fp32] = FlopRate(19.5e12);
  const cost::CostModel model(machine, a100_curves(), megatron_2021());
  FusedAttention shape{4, 32, 2048, 2048, 128, true, false};
  const double narrow = model.attention(shape) - kGap;
  shape.precision = Precision::fp32;
  CHECK(model.attention(shape) - kGap == Approx(narrow * 312 / 19.5).epsilon(1e-12));
  CHECK(shape.operand_bytes() == 4. * 4 * 32 * 256 * 4096);
}

TEST_CASE("split-K fills an empty GPU") {
  // 256 x 256 x 16384 in 12 pieces of 1365.3 (the most), 128 x 128: 4 tiles x 12 = 48 blocks, one wave of
  // 2 128 128 1365.3 1.365 / 2.61e12 = 23.4 us + 2.55. 128 x 64 tiles: 96 blocks, loss 1 + .73 (1 + 2 - 1.5) = 2.095,
  // 18.0 us + 1.3 = 19.2 us. 64 x 64 would be 192 blocks, two waves. Memory: 16.9 MB = 10.4 us; norm 19.6. Sums:
  // 4 12 65536 B = 3.1 MB = 1.94 us, + 3. With .3: 24.9 us, + 2.
  const double compute = 2. * 128 * 64 * 16384 / 12 * 2.095 / kSm + 5.1e-6 / 4;
  const double memory = 2. * (2. * 256 * 16384 + 256. * 256) / 1.62e12;
  const double sums = 4. * 12 * 65536 / 1.62e12 + 3e-6;
  const double wanted = limited(.3e-6 + norm(compute, memory) + sums, 2. * 256 * 256 * 16384) + kGap;
  CHECK(wanted == Approx(26.9e-6).epsilon(.005));
  CHECK(model().gemm({256, 256, 16384, 1, Precision::fp16}) == Approx(wanted).epsilon(1e-12));
}

TEST_CASE("a short main loop hides the ends of its neighbours' tiles") {
  // 64 products 2048 x 2048 x 96, as of attention scores: 256 x 128, 64 x 128 = 8192 tiles = 76 waves of 2 256 128 96 /
  // 2.61e12 = 2.41 us, less than the 5.1 of their ends: 183.2 us. Memory: 64 x 2 (2 2048 96 + 2048^2) B = 587 MB =
  // 362.4 us. Norm 368.2 us, + .3; energy of 51.5e9 FLOP 219.9 us: 369.3, + 2.
  const double compute = 76 * (2. * 256 * 128 * 96 / kSm);
  const double memory = 64. * 2 * (2. * 2048 * 96 + 2048. * 2048) / 1.62e12;
  const double wanted = limited(.3e-6 + norm(compute, memory), 64. * 2 * 2048 * 2048 * 96) + kGap;
  CHECK(wanted == Approx(371.3e-6).epsilon(1e-3));
  CHECK(model().gemm({2048, 2048, 96, 64, Precision::fp16}) == Approx(wanted).epsilon(1e-12));
}

TEST_CASE("in a burst the clock is whole") {
  // The first GEMM at clock 1: 5 waves of 102.85 x .95 + 5.1 us = 514.0; memory adds nothing to see.
  const double compute = 5 * (2. * 256 * 128 * 4096 / kSm * .95 + 5.1e-6), memory = 3. * 2 * 4096 * 4096 / 1.62e12;
  CHECK(cost::gemm_time(a100(), {4096, 4096, 4096, 1, Precision::fp16}, Precision::fp16, 1) ==
        Approx(.3e-6 + norm(compute, memory)).epsilon(1e-12));
}

TEST_CASE("fp8 is counted against bf16, by how its scales are kept") {
  auto machine = dgx_a100();
  machine.gpu.fp8_speedup = 2;
  machine.gpu.fp8_rowwise_speedup = 1.5;
  // No memory, no fixed costs: only the rate remains.
  machine.gpu.sustained_memory_bandwidth = Bandwidth(1e30);
  machine.gpu.gemm_overhead = machine.gpu.tile_overhead = machine.gpu.kernel_gap = Time();
  const auto time = [&](Precision precision, models::Fp8Scaling scaling) {
    auto framework = megatron_2021();
    framework.fp8_scaling = scaling;
    return cost::CostModel(machine, a100_curves(), framework).gemm({4096, 4096, 4096, 1, precision});
  };
  using enum models::Fp8Scaling;
  const double bf16 = time(Precision::bf16, tensorwise);
  CHECK(time(Precision::fp8, tensorwise) == Approx(bf16 / 2));
  CHECK(time(Precision::fp8, rowwise) == Approx(bf16 / 1.5));
  CHECK_THROWS_WITH_AS(time(Precision::fp8, blockwise), doctest::Contains("fp8_scaling"), UserError);
}

TEST_CASE("NVFP4 has a gain of its own where power limits the rate; one scale a tensor is one scale a tensor") {
  auto machine = dgx_a100();
  machine.gpu.fp8_speedup = 2, machine.gpu.fp4_speedup = 4;
  machine.gpu.sustained_memory_bandwidth = Bandwidth(1e30);
  machine.gpu.gemm_overhead = machine.gpu.tile_overhead = machine.gpu.kernel_gap = Time();
  // So far below bursts that power alone counts: of the norm of order 8 bursts are less than 1e-4.
  machine.gpu.sustained_clock = .1;
  const auto time = [&](Precision precision, models::Fp8Scaling scaling) {
    auto framework = megatron_2021();
    framework.fp8_scaling = scaling;
    return cost::CostModel(machine, a100_curves(), framework).gemm({4096, 4096, 4096, 1, precision});
  };
  using enum models::Fp8Scaling;
  const double bf16 = time(Precision::bf16, tensorwise);
  CHECK(time(Precision::fp4, tensorwise) == Approx(bf16 / 4));
  machine.gpu.fp4_limited_speedup = 7;
  CHECK(time(Precision::bf16, tensorwise) == bf16);
  CHECK(time(Precision::fp4, tensorwise) == Approx(bf16 / 7).epsilon(1e-4));
  CHECK(time(Precision::fp8, current) == time(Precision::fp8, tensorwise));
}

TEST_CASE("fp32 has its own rate, or that of tf32 where there is no other") {
  auto machine = dgx_a100();
  machine.gpu.peak = {{Precision::fp32, FlopRate(20e12)}, {Precision::tf32, FlopRate(160e12)}};
  const Gemm shape{4096, 4096, 4096, 1, Precision::fp32};
  const double own = cost::CostModel(machine, a100_curves(), megatron_2021()).gemm(shape);
  machine.gpu.peak.erase(Precision::fp32);
  const double tf32 = cost::CostModel(machine, a100_curves(), megatron_2021()).gemm(shape);
  CHECK(own / tf32 > 7);
  CHECK(own / tf32 < 8);
}

TEST_CASE("a precision without a peak rate is the user's to change") {
  CHECK_THROWS_WITH_AS(model().gemm({128, 128, 128, 1, Precision::fp8}), doctest::Contains("cannot compute in fp8"),
                       UserError);
}

TEST_CASE("fused attention") {
  // b 4, 32 heads, s 2048, d 128, causal: 4 4 32 2048^2 128 / 2 = 137.4 GFLOP at 208e12 x 1.09, x 2048/(2048 + 356):
  // 711.6 us. 4 32 16 = 2048 blocks on 216 slots = 9.48 each, of which .65 are lost: x 1.0686 = 760.4 us.
  const FusedAttention forward{4, 32, 2048, 2048, 128, true, false};
  const double flop = 4. * 4 * 32 * 2048. * 2048 * 128 / 2, slots = 2048. / 216;
  CHECK(model().attention(forward) ==
        Approx(flop / (208e12 * 1.09) * (1 + 356. / 2048) * (1 + .65 / slots) + kGap).epsilon(1e-12));
  CHECK(model().attention(forward) == Approx(762.4e-6).epsilon(1e-3));
  // Backward: 2.5 times the FLOPs; long rows reach together what the GPU's rate says: 1/1.09 + 2.5/x = 3.5. Two
  // kernels.
  FusedAttention backward = forward;
  backward.backward = true;
  const double back = 2.5 / (3.5 - 1 / 1.09);
  CHECK(model().attention(backward) ==
        Approx(2.5 * flop / (208e12 * back) * (1 + 533. / 2048) * (1 + .5 / slots) + 2 * kGap).epsilon(1e-12));
  // One sequence, 2 heads of 64: 2 x 16 = 32 blocks on 216 slots; heads of 64 at .85.
  const FusedAttention few{1, 2, 2048, 2048, 64, true, false};
  const double small = 4. * 2 * 2048. * 2048 * 64 / 2;
  CHECK(model().attention(few) ==
        Approx(small / (208e12 * 1.09 * .85) * (1 + 356. / 2048) * (1 + .65 * 216 / 32) + kGap).epsilon(1e-12));
  // Heads of 96: half way between .85 and 1.
  FusedAttention between = forward;
  between.head_dim = 96;
  CHECK(model().attention(between) - kGap ==
        Approx((model().attention(forward) - kGap) * 96 / 128 / .925).epsilon(1e-12));
  // Not causal: twice the FLOPs, 1/.959 of the rate and shorter ends.
  FusedAttention square = forward;
  square.causal = false;
  CHECK(model().attention(square) ==
        Approx(2 * flop / (208e12 * 1.09 / .959) * (1 + 45. / 2048) * (1 + .65 / slots) + kGap).epsilon(1e-12));
  // Kernels of 2022 reach .52 of it.
  auto old = megatron_2021();
  old.attention_rate = .52;
  CHECK(model(old).attention(forward) - kGap == Approx((model().attention(forward) - kGap) / .52).epsilon(1e-12));
}

TEST_CASE("an attention kernel that the GPU has not is FlashAttention-2") {
  auto framework = megatron_2021();
  framework.attention_kernel = models::AttentionKernel::cudnn;
  const FusedAttention shape{4, 32, 2048, 2048, 128, true, false};
  CHECK(model(framework).attention(shape) == model().attention(shape));
  auto machine = dgx_a100();
  machine.gpu.cudnn_attention_rate = FlopRate(300e12);
  // 1.132 of its rate forward, ends of 339 tokens: 300e12 1.132 / (1 + 339/2048) against 208e12 1.09 / (1 + 356/2048).
  const cost::CostModel with(machine, a100_curves(), framework);
  CHECK((with.attention(shape) - kGap) / (model().attention(shape) - kGap) ==
        Approx((208. * 1.09 / (1 + 356. / 2048)) / (300. * 1.132 / (1 + 339. / 2048))).epsilon(1e-12));
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
  CHECK(model().collective({all_reduce, Bytes(64 << 20), {8, 1}}) == Approx(579.9e-6).epsilon(1e-9));
  CHECK(model().collective({all_gather, Bytes(64 << 20), {8, 1}}) == Approx(289.95e-6).epsilon(1e-9));
  CHECK(model().collective({reduce_scatter, Bytes(64 << 20), {8, 1}}) == Approx(289.95e-6).epsilon(1e-9));
  CHECK(model().collective({all_reduce, Bytes(64 << 20), {1, 1}}) == 0);
}

TEST_CASE("collectives across nodes: wire against in-node part") {
  // 16 ranks on 2 nodes, 1 GiB all-reduce by a tree. Wire: 1.0737 GB / (200e9 .85) / .92 = 6.865 ms; in the node 8.193
  // ms; one of 1 GiB / 16 channels / 512 KiB = 128 pieces of the shorter; 2 hops of 25 us. Sum 8.297 ms.
  const graph::Collective both{CollectiveKind::all_reduce, Bytes(1 << 30), {16, 1}};
  const double wire = 1073741824 / 170e9 / .92;
  CHECK(model().collective(both) == Approx(8.193e-3 + wire / 128 + 50e-6).epsilon(1e-9));
  CHECK(model().collective(both) == Approx(8.297e-3).epsilon(1e-3));
  // One rank per node on 32 nodes, each over the NIC beside it: wire 2 31/32 S 8 / 170e9 = 9.118 ms. A ring: 31 hops
  // of 50 us, 10.668 ms. A tree: 2 S at .92 of the rate, of which it reaches .9 at 100 MB, and 5 hops: 11.617 ms.
  const graph::Collective rails{CollectiveKind::all_reduce, Bytes(100'000'000), {32, 8}};
  const double rail_wire = 2. * 31 / 32 * 1e8 * 8 / 170e9;
  CHECK(model().collective(rails) == Approx(rail_wire + 2 * 25e-6 * 31).epsilon(1e-9));
  // A reduce-scatter is half of a ring.
  graph::Collective half = rails;
  half.kind = CollectiveKind::reduce_scatter;
  CHECK(model().collective(half) == Approx((rail_wire + 2 * 25e-6 * 31) / 2).epsilon(1e-9));
}

TEST_CASE("messages") {
  // In the node: .25 ms + 1.22 us of the way + 28 MB / 80 GB/s = .6 ms.
  CHECK(model().message({Bytes(28'000'000), 0, 1, Bytes(), 1}) == Approx(.60122e-3));
  // Across: a GPU reaches its own NIC, 25 GB/s x .9: 22.5 MB take 1 ms after 25 us of the way.
  CHECK(model().message({Bytes(22'500'000), 0, 8, Bytes(), 1}) == Approx(1.275e-3));
  // One NIC for the node: alone a GPU has it for itself.
  auto one = dgx_a100(2);
  one.nics_per_node = 1;
  const cost::CostModel single(one, a100_curves(), megatron_2021());
  CHECK(single.message({Bytes(22'500'000), 0, 8, Bytes(), 1}) == Approx(1.275e-3));
  // Sharded over 8 tensor ranks: then 7/8 of the whole array comes over NVLink at 220 GB/s: 176 MB -> .7 ms.
  CHECK(model().message({Bytes(22'000'000), 0, 1, Bytes(176'000'000), 8}) ==
        Approx(.25e-3 + 1.22e-6 + .275e-3 + .7e-3));
}

TEST_CASE("composite works add up exactly") {
  using namespace graph;
  // Wait 5 us; memory 162 MB = 100 us + gap; a host that needs 300 us for 2 x wait + memory (112 us) idles the GPU 188
  // us.
  std::vector<Work> works{FixedDelay{seconds(5e-6)}, MemoryBound{Bytes(162'000'000), 1, Traffic::plain}};
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
  // The all-reduce of 240 MB, some 1.8 ms, beside a kernel that takes half of the memory's rate for 10 ms. It holds 20
  // of 108 multiprocessors, so while it lasts the kernel runs at 88/108 and 20/88 of that time are lost; what the ring
  // takes of the memory leaves enough. Beside one of .1 ms the ring shows.
  const cost::CostModel ring(dgx_a100(), {}, megatron_2021());
  const Gemm product{8192, 8192, 8192, 1, Precision::bf16, false};
  const std::vector<Work> works_beside{product, Collective{CollectiveKind::all_reduce, Bytes(240'000'000), {8, 1}},
                                       MemoryBound{Bytes(16'200'000), 1, Traffic::plain},
                                       Overlapped{WorkId(0), WorkId(1)}, Overlapped{WorkId(2), WorkId(1)}};
  const auto beside = ring.price(works_beside);
  REQUIRE(beside[0] > beside[1] * 2);
  CHECK(to_seconds(beside[3]) == Approx(to_seconds(beside[0]) + 24. / 108 * to_seconds(beside[1])).epsilon(1e-6));
  CHECK(beside[4] == beside[1]);
  // A host that is behind of some kernels and ahead of others: the norm of order 4 of both, at least the longer one.
  auto uneven = works;
  for (const double host : {0., 20e-6, 112e-6, 300e-6}) uneven.push_back(HostBound{seconds(host), WorkId(2), true});
  const auto waits = model().price(uneven);
  CHECK(waits[7] == Time());
  CHECK(to_seconds(waits[8]) == Approx(.0285e-6).epsilon(.01));
  CHECK(to_seconds(waits[9]) == Approx((std::pow(2, .25) - 1) * 112e-6).epsilon(1e-6));
  CHECK(waits[10] > times[3]);
  const std::vector<Work> forward_reference{HostBound{Time(), WorkId(0)}};
  CHECK_THROWS_AS(model().price(forward_reference), InternalError);
}

TEST_CASE("an assumption is told when a work of the answer rests on it, the weightiest first") {
  auto machine = dgx_a100(2);
  machine.gpu.assumed = {"kernel_gap", "cudnn_attention_rate", "gemm_efficiency", "memory"};
  machine.assumed = {"links.scale_up.latency", "links.scale_out.bandwidth"};
  machine.sources["links.scale_out.bandwidth"] = "data sheet";
  const cost::CostModel model(machine, a100_curves(), megatron_2021());
  const auto told = [&](const std::vector<graph::Work>& works, const std::vector<double>& runs) {
    std::vector<std::string> texts;
    for (const auto& a : model.assumptions(works, model.price(works), runs)) texts.push_back(a.text);
    return texts;
  };
  // A product of 4.4 ms, which a tenth of its efficiency moves by 0.4 ms, and its gap, of which that moves 0.2 us.
  const std::vector<graph::Work> works{Gemm{8192, 8192, 8192, 1, Precision::bf16, false},
                                       graph::Collective{CollectiveKind::all_gather, Bytes(1 << 20), GroupShape{2, 8}}};
  CHECK(told(works, {1, 0}) ==
        std::vector<std::string>{
            "GPU a100-80g: gemm_efficiency = 0.951 is assumed.", "GPU a100-80g: kernel_gap = 2.000 us is assumed.",
            "GPU a100-80g: memory = 74.51 GiB is assumed.",  // whether it fits
            "A GPU holds 762.94 MiB for context and libraries and 192.00 MiB per communicator beyond what the "
            "framework reserves."});
  // Often enough, the message over the wire weighs more.
  const auto often = told(works, {1, 1e6});
  CHECK(often.front() == "Cluster dgx-a100-80g: links.scale_out.bandwidth = 25 GB/s is assumed (data sheet).");
  CHECK(
      std::none_of(often.begin(), often.end(), [](auto& a) { return a.find("nvlink.latency") != std::string::npos; }));
}

TEST_CASE("a power limit slows products down by the clock that it leaves, and nothing else") {
  // Energy above 150 W: 350 of 550 W.
  auto gpu = a100();
  gpu.power = 700, gpu.power_limit = 500;
  CHECK(gpu.clock() == doctest::Approx(gpu.sustained_clock * 350 / 550));
  gpu.power_limit = 700;
  CHECK(gpu.clock() == gpu.sustained_clock);
  gpu.power_limit = 2000;  // no more than a burst
  CHECK(gpu.clock() == 1);
  gpu.power = gpu.power_limit = 0;
  CHECK(gpu.clock() == gpu.sustained_clock);
}
