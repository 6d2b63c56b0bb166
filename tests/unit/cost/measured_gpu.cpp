// A measured GPU: fits solved by hand, prices from them, and the assumptions they replace.
#include "cost/measured_gpu.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cost/attention.hpp"
#include "cost/gemm.hpp"
#include "cost/gpu_fit.hpp"
#include "machines.hpp"

using namespace rehearsal;
using namespace rehearsal::cost;
using namespace rehearsal::test;
using doctest::Approx;

namespace {

using models::AttentionKernel;

Quantiles around(double s) { return {seconds(s * .98), seconds(s), seconds(s * 1.1)}; }

GpuTimes of_a100() {
  GpuTimes t;
  t.gpu = {"NVIDIA A100-SXM4-80GB", "8.0", 108, Bytes(85'000'000'000), "580.1", "13.0"};
  return t;
}

// t = 3 us + .3 ps a byte, and .2 ps more for each beyond 32 MiB.
double moved(double n) { return 3e-6 + .3e-12 * n + .2e-12 * std::max(0., n - double(32 << 20)); }

SizeTimes sizes() {
  SizeTimes t;
  for (int i = 16; i <= 30; i += 2) t.samples.push_back({Bytes(1LL << i), around(moved(double(1LL << i)))});
  for (const std::int64_t mib : {32, 48, 96}) t.samples.push_back({Bytes(mib << 20), around(moved(double(mib << 20)))});
  return t;
}

const std::vector<Gemm> kShapes = [] {
  std::vector<Gemm> all;
  for (const auto& [m, n, k] : {std::array{4096, 4096, 4096},
                                {8192, 8192, 8192},
                                {2048, 6144, 1024},
                                {256, 256, 16384},
                                {128, 1024, 512},
                                {64, 64, 256},
                                {1024, 1024, 1024},
                                {512, 4096, 4096},
                                {128, 128, 8192},
                                {4096, 128, 256},
                                {3072, 3072, 768},
                                {640, 896, 1152},
                                {2048, 2048, 256},
                                {1536, 512, 2048},
                                {96, 8192, 512},
                                {5120, 1280, 640}})
    all.push_back({m, n, k, 1, Precision::bf16});
  return all;
}();

// Its products take what gemm_time says of it.
cluster::Gpu truth() {
  auto g = a100();
  g.gemm_efficiency = .88, g.small_tile_loss = .4, g.gemm_overhead = seconds(3e-6), g.tile_overhead = seconds(2e-6);
  return g;
}
GpuTimes products(const std::vector<Gemm>& shapes) {
  auto t = of_a100();
  for (const auto& s : shapes)
    t.gemm[Precision::bf16].samples.push_back({s, around(gemm_time(truth(), s, s.precision, 1)), false});
  return t;
}

std::shared_ptr<Profile> profile(GpuTimes times) {
  auto p = std::make_shared<Profile>();
  p->name = "lab", p->date = "2025-01-02T03:04:05Z", p->ranks = 1;
  p->gpu = std::move(times);
  return p;
}
CostModel priced(const std::shared_ptr<Profile>& p, models::Framework framework = megatron_2021(),
                 cluster::Gpu gpu = a100()) {
  auto machine = dgx_a100();
  machine.gpu = measured(std::move(gpu), *p->gpu, "measured: profile lab");
  return {machine, a100_curves(), framework, p};
}

}  // namespace

TEST_CASE("memory-bound kernels: a fixed cost, a rate, a cache") {
  auto t = of_a100();
  t.memory_bound = sizes();
  // Held out, and 10 % longer than the rest: |1 / 1.1 - 1| = 9.09 %.
  t.memory_bound->samples.push_back({Bytes(200 << 20), around(1.1 * moved(double(200 << 20))), true});
  fit_gpu(t, a100());
  const auto& fit = t.memory_bound->fit;
  CHECK(fit.call == Approx(3e-6).epsilon(1e-4));
  CHECK(fit.byte == Approx(.3e-12).epsilon(1e-4));
  CHECK(fit.far_byte == Approx(.2e-12).epsilon(1e-3));
  CHECK(fit.knee == Bytes(32 << 20));
  CHECK(fit.far_rate().value() == Approx(2e12).epsilon(1e-3));  // 1 / .5 ps
  CHECK(fit.error.fitted.samples == 11);
  CHECK(fit.error.fitted.p90 < 1e-4);
  CHECK(fit.error.held_out.samples == 1);
  CHECK(fit.error.held_out.median == Approx(.0909).epsilon(1e-3));
}

TEST_CASE("a link is latency and bandwidth from 1 MiB on") {
  // 10 us + 20 ps a byte (50 GB/s). What is smaller goes by other rules, here 1 ms, and does not count.
  const auto link = [](double share) {
    SizeTimes t;
    for (const std::int64_t n : {1 << 10, 1 << 16}) t.samples.push_back({Bytes(n), around(1e-3)});
    for (const std::int64_t mib : {1, 4, 16, 64, 256})
      t.samples.push_back({Bytes(mib << 20), around(share * (10e-6 + 20e-12 * double(mib << 20)))});
    return t;
  };
  auto t = of_a100();
  t.host_link = HostLink{link(1), link(2)};
  fit_gpu(t, a100());
  CHECK(t.host_link->to_device.fit.call == Approx(10e-6).epsilon(1e-4));
  CHECK(t.host_link->to_device.fit.far_rate().value() == Approx(50e9).epsilon(1e-4));
  CHECK(t.host_link->to_host.fit.far_rate().value() == Approx(25e9).epsilon(1e-4));
  CHECK(t.host_link->to_device.fit.error.fitted.samples == 5);
  t.host_link->to_host.samples.resize(2);
  CHECK_THROWS_AS(fit_gpu(t, a100()), UserError);
}

TEST_CASE("one product determines a rate and nothing else") {
  // 4096 x 4096 x 4096 in 700 us. Of the file: t0 .3 us, t_pro 5.1 us, q .73. 256 x 128: 512 tiles, 5 waves of 108 SMs:
  // (700 - .3) / 5 - 5.1 = 134.84 us for a tile of 2 256 128 4096 = 268.4e6 FLOP, times 108 SMs: 215.0 TFLOP/s. Other
  // tiles and pieces take longer; 62 us of memory add 2e-5 in the norm of order 4.
  auto t = of_a100();
  t.gemm[Precision::bf16].samples = {{{4096, 4096, 4096, 1, Precision::bf16}, around(700e-6), false}};
  fit_gpu(t, a100());
  const auto& fit = t.gemm.at(Precision::bf16).fit;
  CHECK(fit.rate.value() == Approx(215.0e12).epsilon(5e-4));
  CHECK(fit.kept ==
        std::vector<std::string>{"gemm_overhead", "tile_overhead", "small_tile_loss", "weight_gradient_rate"});
  CHECK(fit.overhead == a100().gemm_overhead);
  CHECK(fit.error.fitted.median < 1e-4);
  CHECK(fit.error.held_out.samples == 0);
}

TEST_CASE("a fit finds the constants that made the products") {
  auto t = products(kShapes);
  // Weight gradients at 1.25 of the rate of the others, one disturbed: the median of 1.25, 1.25 and .5.
  for (const int i : {0, 1, 2}) {
    auto s = kShapes[std::size_t(i)];
    const double forward = gemm_time(truth(), s, s.precision, 1);
    s.weight_gradient = true;
    t.gemm[Precision::bf16].samples.push_back({s, around(forward / (i == 2 ? .5 : 1.25)), false});
  }
  fit_gpu(t, a100());
  const auto fit = t.gemm.at(Precision::bf16).fit;
  CHECK(fit.rate.value() == Approx(.88 * 312e12).epsilon(.01));
  CHECK(to_seconds(fit.overhead) == Approx(3e-6).epsilon(.05));
  CHECK(to_seconds(fit.tile_overhead) == Approx(2e-6).epsilon(.1));
  CHECK(fit.small_tile_loss == Approx(.4).epsilon(.05));
  CHECK(fit.weight_gradient_rate == Approx(1.25).epsilon(.01));
  CHECK(fit.kept.empty());
  // Two of sixteen were disturbed and took three times as long, one of them the only large one: the others are still
  // met.
  t.gemm[Precision::bf16].samples[1].time = around(3 * to_seconds(t.gemm[Precision::bf16].samples[1].time.p50));
  t.gemm[Precision::bf16].samples[7].time = around(3 * to_seconds(t.gemm[Precision::bf16].samples[7].time.p50));
  fit_gpu(t, a100());
  CHECK(t.gemm.at(Precision::bf16).fit.error.fitted.median < .03);
  // Nothing to fit to.
  for (auto& s : t.gemm[Precision::bf16].samples) s.held_out = true;
  CHECK_THROWS_WITH_AS(fit_gpu(t, a100()), doctest::Contains("held-out ones were measured"), UserError);
}

TEST_CASE("held-out samples do not move a fit") {
  auto t = products(kShapes);
  fit_gpu(t, a100());
  const auto alone = t.gemm.at(Precision::bf16).fit;
  auto with = products(kShapes);
  with.gemm[Precision::bf16].samples.push_back({{1000, 1000, 1000, 1, Precision::bf16}, around(1.), true});
  fit_gpu(with, a100());
  const auto& fit = with.gemm.at(Precision::bf16).fit;
  CHECK(fit.rate == alone.rate);
  CHECK(fit.small_tile_loss == alone.small_tile_loss);
  CHECK(fit.error.held_out.samples == 1);
  CHECK(fit.error.held_out.median > .99);
  const auto all = judge(with, a100());
  REQUIRE(all.size() == kShapes.size() + 1);
  CHECK(all.back().held_out);
  CHECK(all.back().section == "gemm bf16");
  CHECK(all.back().shape == "1000 x 1000 x 1000");
  CHECK(all.back().measured == Approx(1));
}

TEST_CASE("attention: the rate that the median sample asks for") {
  // 2, 1 and .5 times as long as at 100 TFLOP/s: the rates 50, 100, 200, of which the median is 100. Over two: 75.
  const auto gpu = with_attention(a100(), AttentionKernel::flash2, FlopRate(100e12));
  auto t = of_a100();
  auto& attention = t.attention[AttentionKernel::flash2];
  for (const auto& [sequence, factor] : {std::pair{1024, 2.}, {2048, 1.}, {4096, .5}}) {
    const FusedAttention s{4, 32, sequence, sequence, 128};
    attention.samples.push_back({s, around(factor * attention_time(gpu, s, AttentionKernel::flash2)), false});
  }
  fit_gpu(t, a100());
  CHECK(attention.rate.value() == Approx(100e12).epsilon(1e-4));
  attention.samples.pop_back();
  fit_gpu(t, a100());
  CHECK(attention.rate.value() == Approx(75e12).epsilon(1e-4));
}

TEST_CASE("a shape that was measured takes its median, another one the fit, and no gap is added") {
  auto t = products(kShapes);
  const Gemm odd{777, 777, 777, 1, Precision::bf16}, held{888, 888, 888, 1, Precision::bf16};
  fit_gpu(t, a100());
  // After the fit, so that nothing but the sample itself can give these prices.
  t.gemm[Precision::bf16].samples.push_back({odd, around(123e-6), false});
  t.gemm[Precision::bf16].samples.push_back({held, around(123e-6), true});
  const auto model = priced(profile(t));
  CHECK(model.gemm(odd) == 123e-6);
  CHECK(model.gemm(held) == Approx(gemm_time(truth(), held, Precision::bf16, 1)).epsilon(.02));
  const Gemm other{6000, 1000, 3000, 1, Precision::bf16};
  CHECK(model.gemm(other) == Approx(gemm_time(truth(), other, Precision::bf16, 1)).epsilon(.02));
  auto gradient = odd;
  gradient.weight_gradient = true;  // another kernel: not this sample
  CHECK(model.gemm(gradient) < 100e-6);
  // fp16 was not measured: at its own peak, which is the same, with the constants of bf16, and a gap of 2 us.
  auto half = other;
  half.precision = Precision::fp16;
  CHECK(model.gemm(half) == Approx(model.gemm(other) + 2e-6).epsilon(1e-6));
}

TEST_CASE("bursts are not how training runs") {
  // Timed before power limits the clock: the file's sustained clock, .79, still applies. A sample is longer by as much
  // as the model says of its shape. 8192 x 8192 x 8192 is bound by its energy: at least 1 / .79 of a burst.
  auto t = products(kShapes);
  t.settled_clock = false;
  fit_gpu(t, a100());
  const auto model = priced(profile(t));
  const auto big = kShapes[1];
  const double burst = to_seconds(t.gemm[Precision::bf16].samples[1].time.p50);
  CHECK(model.gemm(big) > burst / .79);
  CHECK(model.gemm(big) < burst / .79 * 1.1);
  auto machine = priced(profile(t)).machine();
  CHECK(machine.gpu.sustained_clock == .79);
  t.settled_clock = true;
  CHECK(priced(profile(t)).gemm(big) == burst);
}

TEST_CASE("memory-bound works, attention and the optimizer from what was measured") {
  auto t = of_a100();
  t.memory_bound = sizes();
  const FusedAttention s{4, 32, 2048, 2048, 128};
  t.attention[AttentionKernel::flash2].samples = {{s, around(500e-6), false}};
  t.launch.stream = around(4e-6);
  fit_gpu(t, a100());
  const auto model = priced(profile(t));
  // 64 MiB in two kernels: 2 (3 us + .3 ps 33554432) = 26.13 us. In one: 3 + 20.13 + .2 ps 33554432 (6.71) = 29.84 us.
  CHECK(model.memory_bound({Bytes(64 << 20), 2, Traffic::plain}) == Approx(26.13e-6).epsilon(1e-3));
  CHECK(model.memory_bound({Bytes(64 << 20), 1, Traffic::plain}) == Approx(29.84e-6).epsilon(1e-3));
  // Dropout's 1.4 is on what moves: 3 + 1.4 26.84 = 40.58 us.
  CHECK(model.memory_bound({Bytes(64 << 20), 1, Traffic::with_dropout_forward}) == Approx(40.58e-6).epsilon(1e-3));
  CHECK(model.attention(s) == Approx(500e-6).epsilon(1e-9));
  // The optimizer at the far rate, 2 TB/s, and 2 ms.
  graph::OptimizerStep step;
  step.traffic = Bytes(2'000'000'000);
  CHECK(model.optimizer(step) == Approx(3e-3).epsilon(1e-3));
  // Products were not measured: the file's constants, and the gap that was.
  const auto bare = cost::CostModel(dgx_a100(), a100_curves(), megatron_2021());
  const Gemm g{4096, 4096, 4096, 1, Precision::bf16};
  CHECK(model.gemm(g) - 4e-6 == Approx(bare.gemm(g) - 2e-6).epsilon(1e-3));
  // Framework that reaches half of the kernel's rate reaches half of the measured one.
  auto half = megatron_2021();
  half.attention_rate = .5;
  CHECK(priced(profile(t), half).attention(s) == Approx(1000e-6).epsilon(1e-9));
}

TEST_CASE("own kernels are measured and fitted by precision") {
  const auto sample = [](Precision p, double s) {
    return KernelSample{{KernelKind::gelu, {1000}, {}, p}, seconds(s), seconds(s), seconds(s)};
  };
  auto p = profile(of_a100());
  p->kernels = fit_kernels({sample(Precision::fp32, 8e-6), sample(Precision::bf16, 5e-6)});
  CHECK(p->kernels.size() == 2);
  CHECK(p->time({KernelKind::gelu, {1000}, {}})->time == Approx(8e-6));
  CHECK(p->time({KernelKind::gelu, {1000}, {}, Precision::bf16})->time == Approx(5e-6));
  CHECK(p->time({KernelKind::gelu, {2000}, {}, Precision::bf16})->time == Approx(10e-6));
  CHECK(name(KernelClass(KernelKind::gelu, Precision::bf16)) == "gelu in bf16");
  // Products of own kernels that were not measured themselves are products in their precision.
  auto t = of_a100();
  const Gemm shape{64, 128, 256, 1, Precision::bf16};
  t.gemm[Precision::bf16].samples = {{shape, around(9e-6), false}};
  fit_gpu(t, a100());
  CHECK(priced(profile(t)).kernel({KernelKind::linear, {64, 128, 256}, {}, Precision::bf16}) == 9e-6);
}

TEST_CASE("whose profile it is") {
  auto gpu = a100();
  gpu.name = "a100-80g-sxm";
  auto t = of_a100();
  CHECK(mismatch(t.gpu, gpu).empty());  // 85.0 of 80 GB is how a driver counts
  t.gpu.memory = Bytes(42'000'000'000);
  CHECK(mismatch(t.gpu, gpu) == "the one measured has 42 GB of memory, the other 80");
  t.gpu.memory = Bytes();
  CHECK(mismatch(t.gpu, gpu).empty());
  gpu.name = "h100-80g-sxm";
  CHECK(mismatch(t.gpu, gpu) == "their names differ");
  gpu.name = "100-80g";  // a word, not a part of one
  CHECK(mismatch(t.gpu, gpu) == "their names differ");
  gpu.name = "inline";
  CHECK(mismatch(t.gpu, gpu).empty());
  t.gpu.multiprocessors = 132;
  CHECK(mismatch(t.gpu, gpu) == "the one measured has 132 multiprocessors, the other 108");
}

TEST_CASE("measured values are no longer assumed") {
  auto gpu = a100();
  gpu.assumed = {"sustained_clock",      "weight_gradient_rate", "kernel_gap", "sustained_memory_bandwidth",
                 "fused_attention_rate", "fp8_rowwise_speedup"};
  const std::vector<graph::Work> works{
      Gemm{4096, 4096, 2048, 1, Precision::bf16, false}, Gemm{4096, 4096, 2048, 1, Precision::bf16, true},
      FusedAttention{4, 32, 1024, 1024, 128}, MemoryBound{Bytes(1 << 26), 1, Traffic::plain}};
  const auto all = [&](GpuTimes t, const char* part) {
    fit_gpu(t, gpu);
    const auto model = priced(profile(t), megatron_2021(), gpu);
    const auto lines = model.assumptions(works, model.price(works), std::vector<double>(works.size(), 1));
    return std::count_if(lines.begin(), lines.end(), [&](auto& l) { return l.text.find(part) != std::string::npos; });
  };
  CHECK(all(of_a100(), "is assumed") == 5);  // nothing computes in fp8
  auto t = products(kShapes);
  CHECK(all(t, "sustained_clock") == 0);
  CHECK(all(t, "weight_gradient_rate") == 1);  // none was measured: the file's value stays, and is said to be assumed
  CHECK(all(t, "is assumed") == 4);
  CHECK(all(t,
            "Profile lab: measured on a NVIDIA A100-SXM4-80GB on 2025-01-02T03:04:05Z, driver 580.1: matrix "
            "products in bf16.") == 1);
  CHECK(all(t, "matrix products in fp16 were not measured") == 1);
  t.settled_clock = false;
  CHECK(all(t, "sustained_clock") == 1);
  CHECK(all(t, "measured in bursts") == 1);
  t.settled_clock = true;
  t.memory_bound = sizes();
  t.launch.stream = around(3e-6);
  t.attention[AttentionKernel::flash2].samples = {{{4, 32, 2048, 2048, 128}, around(500e-6), false}};
  CHECK(all(t, "is assumed") == 1);                  // the rate of weight gradients
  CHECK(all(t, "messages were not measured") == 0);  // a GPU by itself says nothing about links
}
