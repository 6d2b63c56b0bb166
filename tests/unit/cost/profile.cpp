// Prices from a measured profile, solved by hand.
#include "cost/profile.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "machines.hpp"

using namespace rehearsal;
using namespace rehearsal::cost;
using namespace rehearsal::test;
using doctest::Approx;

namespace {

Time nanoseconds(double ns) { return seconds(ns * 1e-9); }

KernelSample sample(KernelKind kind, KernelDims dims, double ns) {
  return {{kind, dims, {}}, nanoseconds(ns * .9), nanoseconds(ns), nanoseconds(ns * 1.2)};
}

// t = 400 ns + 0.02 ns a FLOP + 1 ns an element of the weight, at (T, n, k).
double product(double t, double n, double k) { return 400 + .02 * 2 * t * n * k + 1 * n * k; }
// clear moves 4 bytes an element: 100 ns + 0.05 ns a byte, and 0.1 ns more for each beyond 64 KiB.
double cleared(double elements) { return 100 + .05 * 4 * elements + .1 * std::max(0., 4 * elements - 65536); }

std::vector<KernelSample> linear_samples() {
  std::vector<KernelSample> all;
  for (const auto& [t, n, k] : {std::array{8, 16, 16},
                                {32, 16, 64},
                                {64, 64, 32},
                                {16, 128, 128},
                                {128, 32, 256},
                                {256, 256, 16},
                                {64, 256, 256}})
    all.push_back(sample(KernelKind::linear, {t, n, k}, product(t, n, k)));
  return all;
}

std::vector<KernelSample> clear_samples() {
  std::vector<KernelSample> all;
  for (const std::int64_t n : {256, 1024, 4096, 8192, 16384, 32768, 65536, 262144})
    all.push_back(sample(KernelKind::clear, {n}, cleared(double(n))));
  return all;
}

models::Framework own() {
  models::Framework s;
  s.name = "rehearsal";
  s.native_kernels = true;
  return s;
}

std::shared_ptr<Profile> measured() {
  auto p = std::make_shared<Profile>();
  p->name = "here";
  p->ranks = 8;
  auto samples = linear_samples();
  for (const auto& s : clear_samples()) samples.push_back(s);
  // Measured, and nothing like its neighbours.
  samples.push_back(sample(KernelKind::linear, {100, 100, 100}, 77'777));
  p->kernels = fit_kernels(std::move(samples));
  auto& m = p->messages;
  m.send = {{Bytes(1000), nanoseconds(200)}, {Bytes(100'000), nanoseconds(20'000)}};
  m.receive = {{Bytes(1000), nanoseconds(300)}, {Bytes(100'000), nanoseconds(30'000)}};
  m.latency = {{Bytes(1000), nanoseconds(1500)}, {Bytes(100'000), nanoseconds(45'000)}};
  p->collectives.measured[{CollectiveKind::all_reduce, 2}] = {{Bytes(1000), nanoseconds(5000)}};
  return p;
}

cost::CostModel priced(std::shared_ptr<const Profile> profile, models::Framework framework = own()) {
  return {dgx_a100(), profile ? profile->collectives : collective::SizeCurves{}, framework, profile};
}

}  // namespace

TEST_CASE("a fit finds the terms that made the samples") {
  const auto samples = linear_samples();
  const auto f = fit(samples);
  CHECK(f.seconds[0] == Approx(400e-9).epsilon(1e-6));  // call
  CHECK(f.seconds[1] == Approx(.02e-9).epsilon(1e-6));  // flop
  CHECK(f.seconds[2] == Approx(0).scale(1e-12));        // output
  CHECK(f.seconds[3] == Approx(1e-9).epsilon(1e-6));    // weight
  CHECK(f.seconds[4] == Approx(0).scale(1e-12));        // input
  CHECK(f.worst < 1e-6);
  CHECK(f.left_out_worst < 1e-4);
  CHECK(f.time({KernelKind::linear, {100, 50, 40}, {}}) == Approx(product(100, 50, 40) * 1e-9).epsilon(1e-6));
}

TEST_CASE("a cache shows as a knee") {
  const auto samples = clear_samples();
  const auto f = fit(samples);
  CHECK(f.knee == Bytes(65536));  // 16384 elements: one of the sizes measured
  CHECK(f.seconds[0] == Approx(100e-9).epsilon(1e-6));
  CHECK(f.seconds[1] == Approx(.05e-9).epsilon(1e-6));
  CHECK(f.seconds[2] == Approx(.1e-9).epsilon(1e-6));
  CHECK(f.time({KernelKind::clear, {100'000}, {}}) == Approx(cleared(100'000) * 1e-9).epsilon(1e-6));
}

TEST_CASE("a fit minimises relative errors and tells them") {
  // gelu moves 8 bytes an element. Two samples of equal work at 90 and 110 ns: the rate r ns that minimises
  // (r/90 - 1)^2 + (r/110 - 1)^2 is (1/90 + 1/110) / (1/90^2 + 1/110^2) = 98.02 ns; errors 8.91 and 10.89 %, median
  // 9.90 %. Without the other sample each is predicted by it: 110/90 - 1 = 22.2 %, 90/110 - 1 = 18.2 %.
  const std::vector<KernelSample> two{sample(KernelKind::gelu, {1000}, 90), sample(KernelKind::gelu, {1000}, 110)};
  const auto f = fit(two);
  CHECK(f.time(two[0].kernel) == Approx(98.0198e-9).epsilon(1e-5));
  CHECK(f.error == Approx(.0990).epsilon(1e-3));
  CHECK(f.worst == Approx(.1089).epsilon(1e-3));
  CHECK(f.left_out_worst == Approx(.2222).epsilon(1e-3));
  CHECK(f.left_out == Approx((.2222 + .1818) / 2).epsilon(1e-3));
  // One sample says how long the work takes, not that all work takes as long.
  const auto one = fit(std::span(two).first(1));
  CHECK(one.time({KernelKind::gelu, {3000}, {}}) == Approx(270e-9).epsilon(1e-6));
}

TEST_CASE("the measured peak is the best that any kernel reached") {
  Profile profile;
  CHECK_FALSE(profile.peak(Precision::fp32));
  profile.kernels = fit_kernels(linear_samples());
  // (256, 256, 16): 2,097,152 FLOPs in 400 + 41,943.04 + 4,096 ns, of which the tenth percentile is nine tenths.
  REQUIRE(profile.peak(Precision::fp32));
  CHECK(profile.peak(Precision::fp32)->value() == Approx(2097152 / (.9 * 46439.04e-9)));
  CHECK_FALSE(profile.peak(Precision::bf16));
}

TEST_CASE("kernels: the sample of this very shape, else the fit, else the formula") {
  const auto model = priced(measured());
  CHECK(model.kernel({KernelKind::linear, {100, 100, 100}, {}}) == Approx(77'777e-9).epsilon(1e-9));
  CHECK(model.kernel({KernelKind::linear, {100, 100, 100}, {5, 6}}) == Approx(77'777e-9).epsilon(1e-9));  // offsets
  CHECK(model.kernel({KernelKind::clear, {8192}, {}}) == Approx(cleared(8192) * 1e-9).epsilon(1e-6));
  CHECK(model.kernel({KernelKind::clear, {10'000}, {}}) == Approx(cleared(10'000) * 1e-9).epsilon(1e-5));
  // add was not measured: 12 bytes an element at 1620 GB/s and a gap of 2 us, as any memory-bound kernel.
  CHECK(model.kernel({KernelKind::add, {135'000}, {}}) == Approx(1e-6 + 2e-6).epsilon(1e-9));
  // The last of two samples of one shape counts.
  auto twice = clear_samples();
  twice.push_back(sample(KernelKind::clear, {8192}, 9999));
  Profile p;
  p.kernels = fit_kernels(twice);
  CHECK(p.kernels.at(KernelKind::clear).samples.size() == 8);
  CHECK(p.time({KernelKind::clear, {8192}, {}})->time == Approx(9999e-9));
  CHECK(p.time({KernelKind::clear, {8192}, {}})->exact);
  CHECK_FALSE(p.time({KernelKind::clear, {8193}, {}})->exact);
  CHECK_FALSE(p.time({KernelKind::copy, {8192}, {}}));
}

TEST_CASE("a message is o_s, the wire and o_r, and together L") {
  using graph::StagingCopy, graph::Message;
  const auto model = priced(measured());
  CHECK(model.staging_copy({Bytes(1000), false}) == Approx(200e-9));
  CHECK(model.staging_copy({Bytes(1000), true}) == Approx(300e-9));
  CHECK(model.message({Bytes(1000), 0, 1, Bytes(), 1}) == Approx(1000e-9));  // 1500 - 200 - 300
  // 10 kB lies in the middle of the table in logarithms: o_s 2 us, o_r 3 us, L sqrt(1.5 x 45) = 8.216 us.
  const double wire = model.message({Bytes(10'000), 0, 1, Bytes(), 1});
  CHECK(model.staging_copy({Bytes(10'000), false}) == Approx(2e-6));
  CHECK(model.staging_copy({Bytes(10'000), true}) == Approx(3e-6));
  CHECK(wire + 5e-6 == Approx(8.2158e-6).epsilon(1e-4));
  // o_s and o_r were measured by themselves: where they exceed L (20 + 30 > 45 us), nothing is left for the wire.
  CHECK(model.message({Bytes(100'000), 0, 1, Bytes(), 1}) == 0);
  CHECK(model.message({Bytes(0), 0, 1, Bytes(), 1}) == 0);
  // Nobody hands over the messages of other framework: all of L lies between its tasks.
  CHECK(priced(measured(), megatron_2021()).message({Bytes(1000), 0, 1, Bytes(), 1}) == Approx(1500e-9));
  // The wire is held for what grows with the size; the smallest size that was measured is all latency.
  CHECK(model.on_the_wire({Bytes(1000), 0, 1, Bytes(), 1}) == 0);
  CHECK(model.on_the_wire({Bytes(500), 0, 1, Bytes(), 1}) == 0);
  CHECK(model.on_the_wire({Bytes(10'000), 0, 1, Bytes(), 1}) == Approx(wire - 1000e-9));
  // Other machines are not what was measured.
  CHECK(model.message({Bytes(22'500'000), 0, 8, Bytes(), 1}) == Approx(1.275e-3));
}

TEST_CASE("what a rank's loop takes between tasks is paid by each of them") {
  // clear of 8192 elements: 100 + 0.05 32768 = 1738.4 ns, a staging_copy of 1 kB 300 ns; 250 ns more each, twice in a
  // sequence of two. Messages are nobody's task.
  auto p = measured();
  p->between_tasks = {nanoseconds(200), nanoseconds(250), nanoseconds(900)};
  const std::vector<graph::Work> works{Kernel{KernelKind::clear, {8192}, {}}, graph::StagingCopy{Bytes(1000), true},
                                       graph::Message{Bytes(1000), 0, 1, Bytes(), 1},
                                       graph::Sequence{{{WorkId(0), 2, false}}}};
  const auto times = priced(p).price(works);
  CHECK(to_seconds(times[0]) == Approx(1988.4e-9).epsilon(1e-6));
  CHECK(times[1] == nanoseconds(550));
  CHECK(times[2] == nanoseconds(1000));
  CHECK(times[3] == times[0] * 2);
}

TEST_CASE("kernels of experts are products, and a shift is one send") {
  const auto bare = priced(nullptr);
  // Two ranks sent 64 rows to each of three experts.
  const auto priced_as = [&](KernelKind kind) {
    return bare.kernel({kind, {2, 3, 64, 128, 256}, {}, Precision::bf16});
  };
  CHECK(priced_as(KernelKind::expert_linear) == bare.gemm({64, 128, 256, 6, Precision::bf16, false}));
  CHECK(priced_as(KernelKind::expert_linear_input_gradient) == bare.gemm({64, 256, 128, 6, Precision::bf16, false}));
  CHECK(priced_as(KernelKind::expert_linear_weight_gradient) == bare.gemm({128, 256, 64, 6, Precision::bf16, true}));
  // 100 rows of 64 to slots 2 x 8 x 50: read once, and all slots written; slots are whole numbers.
  CHECK(Kernel{KernelKind::dispatch_rows, {100, 64, 2, 8, 50}, {}, Precision::bf16}.traffic() ==
        Bytes(2 * (100 * 64 + 400 * 64) + 4 * 200));

  const Bytes size(28'000'000);
  const auto shift = [&](std::uint32_t ranks) {
    return bare.collective({CollectiveKind::shift, size, GroupShape{ranks, 1}});
  };
  CHECK(shift(1) == 0);
  CHECK(shift(4) == Approx(shift(8)));  // all ranks send at the same time, however many there are
  CHECK(shift(4) == Approx(bare.message({size, 0, 1, Bytes(), 1})));
  // Out of nodes of 8 as slow as the message that leaves; as it was measured, where that was measured.
  const cost::CostModel two({dgx_a100(2)}, {}, own(), nullptr);
  CHECK(two.collective({CollectiveKind::shift, size, GroupShape{16, 1}}) ==
        Approx(two.message({size, 7, 8, Bytes(), 1})));
  CHECK(priced(measured()).collective({CollectiveKind::shift, Bytes(1000), GroupShape{4, 1}}) == Approx(1500e-9));
}

TEST_CASE("attention to a block is priced as the busiest rank has it") {
  const auto bare = priced(nullptr);
  const auto part = [&](Mask mask, std::int64_t step) {
    return bare.kernel(
        {KernelKind::attention_part, {1, 8, 64, 32, std::int64_t(mask), 8, 4, step}, {}, Precision::bf16});
  };
  const auto whole = [&](std::int64_t keys, bool causal) {
    return bare.attention({1, 8, 64, keys, 32, causal, false});
  };
  CHECK(part(Mask::none, 0) == whole(64, false));
  CHECK(part(Mask::causal, 0) == whole(64, true));
  CHECK(part(Mask::causal, 1) == whole(64, false));  // the last rank sees all of these
  CHECK(part(Mask::causal_balanced, 1) == whole(64, true));
  CHECK(part(Mask::causal_balanced, kAllBlocks) == whole(256, true));
  // Windows of W = 48 positions: causal 48 x 64 - 48^2 / 2 pairs of the own block; the block before has 64 - 48 + 1 ..
  // keys for the first queries, 47 46 .. 1 0 of them, 17.6 on average; gathered in order all queries of the last rank
  // see 48. Chunks of 48, in order: the third rank has the last 16 positions of one, which see 33 .. 48, and a whole
  // one: 648 + 1176 pairs, 28.5 keys; the others have 1312, 1568 and 1312.
  const auto kernel = [&](Sight sight, std::int64_t step) {
    return fused_attention({KernelKind::attention_part, {1, 8, 64, 32, sight.dim(), 8, 4, step}, {}, Precision::bf16});
  };
  CHECK(kernel({Mask::causal, 48}, 0).scores() == 48 * 64 - 48. * 48 / 2);
  CHECK(kernel({Mask::causal, 48}, 1).scores() == 64 * 18);
  CHECK(kernel({Mask::causal, 48}, kAllBlocks).scores() == 64 * 48);
  CHECK(kernel({Mask::causal, 48, true}, 0).scores() == (48. * 48 + 16 * 16) / 2);
  CHECK(kernel({Mask::causal, 48, true}, kAllBlocks).scores() == 64 * 29);
  // A window's price ascends to that of all positions, and is that from there on.
  double before = 0;
  for (std::int64_t keys = 1; keys <= 260; ++keys) {
    const Kernel one{KernelKind::attention, {1, 8, 256, 32, Sight{Mask::causal, keys}.dim()}, {}, Precision::bf16};
    const double now = bare.kernel(one),
                 all = bare.kernel({KernelKind::attention, {1, 8, 256, 32, 1}, {}, Precision::bf16});
    CHECK(now >= before);
    CHECK(now <= all);
    if (keys >= 256) CHECK(now == all);
    if (keys == 255) CHECK(now > .99 * all);
    before = now;
  }
  // Both kinds are the same kernel, 4 b h s keys d of the whole square; of it the backward is two and a half times.
  CHECK(Kernel{KernelKind::attention_part, {1, 8, 64, 32, 1, 8, 4, kAllBlocks}, {}}.flops() ==
        Flops(4. * 8 * 64 * 256 * 32));
  CHECK(Kernel{KernelKind::attention_part_gradient, {1, 8, 64, 32, 1, 8, 4, 2}, {}}.flops() ==
        Flops(10. * 8 * 64 * 64 * 32));
}

TEST_CASE("without a profile nothing changes") {
  const auto bare = priced(nullptr);
  CHECK(bare.kernel({KernelKind::add, {135'000}, {}}) == Approx(3e-6).epsilon(1e-9));
  CHECK(bare.staging_copy({Bytes(81'000'000), true}) == Approx(100e-6));  // read and written at 1620 GB/s
  CHECK(bare.message({Bytes(28'000'000), 0, 1, Bytes(), 1}) == Approx(.60122e-3));
}

TEST_CASE("assumptions shrink with what was measured") {
  auto machine = dgx_a100();
  machine.gpu.assumed = {"kernel_gap", "gemm_efficiency", "memory"};
  machine.assumed = {"links.scale_up.bandwidth", "links.scale_up.p2p_bandwidth", "message_overhead"};
  // A kernel without a product, so that no gemm_efficiency is asked; a message; a collective, by a curve of other
  // links.
  const std::vector<graph::Work> works{Kernel{KernelKind::add, {135'000}, {}}, Kernel{KernelKind::clear, {8192}, {}},
                                       Kernel{KernelKind::gelu, {8192}, {}},
                                       graph::Message{Bytes(28'000), 0, 1, Bytes(), 1},
                                       graph::Collective{CollectiveKind::all_reduce, Bytes(1000), GroupShape{2, 1}}};
  const auto count = [&](std::shared_ptr<const Profile> profile, const std::string& part) {
    const bool measured_here = profile && profile->has_collectives();  // then no other machine's curves
    const cost::CostModel model(machine, measured_here ? profile->collectives : a100_curves(), own(), profile);
    const auto all = model.assumptions(works, model.price(works), std::vector<double>(works.size(), 1));
    return std::count_if(all.begin(), all.end(), [&](auto& a) { return a.text.find(part) != std::string::npos; });
  };
  // Gap, memory, the link that the curve was measured on, message and its overhead; and that kernels go by formulas.
  CHECK(count(nullptr, "") == 6);
  CHECK(count(nullptr, "`rehearse calibrate` measures them") == 1);

  auto p = std::make_shared<Profile>();
  p->name = "here", p->ranks = 8;
  CHECK(count(p, "Profile here: kernels were not measured") == 1);
  CHECK(count(p, "Profile here: messages were not measured.") == 1);
  CHECK(count(p, "Profile here: collectives were not measured.") == 1);
  CHECK(count(p, "is assumed") == 5);

  p = measured();
  CHECK(count(p, "links.scale_up.p2p_bandwidth") == 0);
  CHECK(count(p, "message_overhead") == 0);
  CHECK(count(p, "links.scale_up.bandwidth") == 0);
  CHECK(count(p, "GPU a100-80g: kernel_gap") == 1);  // still behind the kinds that were not measured
  CHECK(count(p, "kernels not measured, priced by formulas for a GPU's: gelu, add.") == 1);

  for (std::size_t k = 0; k < kKernelKinds; k++) {
    const auto kind = static_cast<KernelKind>(k);
    p->kernels[kind] = fit_kernels({sample(kind, {4, 4, 4, 4, 4}, 100)}).at(kind);
  }
  CHECK(count(p, "") == 1);
  CHECK(count(p, "memory") == 1);  // whether it fits is still asked of the GPU
  p->ranks = 2;
  CHECK(count(p, "Profile here: kernels were measured with 2 ranks at once, and 8 compute here.") == 1);
}
