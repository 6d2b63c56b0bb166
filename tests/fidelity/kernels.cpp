// Single kernels against published measurements: matrix products and fused attention. The constants of each GPU
// (configs/gpus) and kernel (sim/cost/attention.cpp) were fitted to the even rows of a group; the odd ones are the
// test. Tables without any fit are judged whole: another laboratory's products, the best products known, products with
// block scales.
//
// A benchmark is not a training run: it repeats a product so few times that the first milliseconds run at the full
// clock, before the power controller reacts. Its two extra constants, the time at full clock and the clock after that,
// were fitted with the GPU's and belong to this test.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cost/attention.hpp"
#include "cost/gemm.hpp"
#include "scenario/scenario.hpp"
#include "table.hpp"

using namespace rehearsal;
using fidelity::Row, fidelity::rows;

namespace {

const cluster::Gpu& gpu(const std::string& name) {
  static std::map<std::string, cluster::Gpu> known;
  if (!known.count(name))
    known[name] = scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml",
                                 {fmt::format("cluster={{gpu: {}, gpus_per_node: 8, nodes: 1, links: {{scale_up: "
                                              "{{bandwidth: 300GB/s}}}}}}",
                                              name)})
                      .concrete->cluster.gpu;
  return known[name];
}

struct Score {
  std::vector<double> errors;  // signed
  void add(double predicted, double measured) { errors.push_back(predicted / measured - 1); }
  double mean() const {
    double sum = 0;
    for (const double e : errors) sum += std::abs(e) / double(errors.size());
    return sum;
  }
  double bias() const {
    double sum = 0;
    for (const double e : errors) sum += e / double(errors.size());
    return sum;
  }
  double percentile(double p) const {
    std::vector<double> sizes;
    for (const double e : errors) sizes.push_back(std::abs(e));
    std::sort(sizes.begin(), sizes.end());
    return sizes[std::min(sizes.size() - 1, std::size_t(p * double(sizes.size())))];
  }
};

std::string heading(const char* what) {
  return fmt::format("\n{:<46} {:>5} {:>7} {:>8} {:>7} {:>8}\n", what, "rows", "mean", "median", "p90", "bias");
}
std::string line(const std::string& name, const Score& s) {
  return fmt::format("{:<46} {:>5} {:>5.1f} % {:>6.1f} % {:>5.1f} % {:>+6.1f} %\n", name, s.errors.size(),
                     s.mean() * 100, s.percentile(.5) * 100, s.percentile(.9) * 100, s.bias() * 100);
}

Gemm shape(const Row& row) {
  return {std::stoll(row.at("m")),
          std::stoll(row.at("n")),
          std::stoll(row.at("k")),
          1,
          row.at("precision") == "fp8" ? Precision::fp8 : Precision::bf16,
          row.at("gradient") == "yes"};
}
double price(const cluster::Gpu& g, const Gemm& s, double clock, double fp8) {
  return s.precision == Precision::fp8 ? cost::gemm_time(g, s, Precision::bf16, clock, fp8)
                                       : cost::gemm_time(g, s, s.precision, clock);
}

// For a fixed number of repetitions: seconds of a product at full clock, and the clock after that.
struct Benchmark {
  double full, clock;
  double time(double alone) const { return alone <= full ? alone : full + (alone - full) / clock; }
};
const std::map<std::string, Benchmark> kBursts{
    {"a100-80g-sxm", {960e-6, .91}}, {"h200-sxm", {580e-6, .96}}, {"l40s", {860e-6, .74}}};

}  // namespace

TEST_CASE("matrix products") {
  std::map<std::string, Score> scores;
  std::map<std::string, std::size_t> seen;
  for (const Row& row : rows("kernels_gemm.csv")) {
    const auto& table = row.at("table");
    const auto& name = row.at("gpu");
    const auto& g = gpu(name);
    const Gemm s = shape(row);
    const double measured = std::stod(row.at("time_us")) * 1e-6;
    const std::size_t number = seen[table + name]++;
    if (table == "burst") {
      const double predicted = kBursts.at(name).time(price(g, s, 1, 0));
      for (const char* part : {"all", "m >= 1024"})
        if (part[0] == 'a' || s.m >= 1024)
          scores[fmt::format("{} {:<9} {}", name, part, number % 2 ? "held out" : "fitted")].add(predicted, measured);
    } else if (table == "training") {  // long products at the training clock; short ones of this table are bursts
      if (measured > 250e-6)
        scores[fmt::format("{} training, long {}", name, number % 2 ? "held out" : "fitted")].add(
            price(g, s, g.sustained_clock, 0), measured);
    } else if (table == "sustained") {  // fp16 counts as bf16; at the clock after the bursts, Hopper as H200
      const double clock = name == "a100-80g-sxm" ? .91 : .96;
      scores[name + " sustained, random data"].add(price(g, s, clock, g.fp8_speedup), measured);
    } else {
      scores[fmt::format("{} {} {}", name, table, row.at("precision"))].add(
          price(g, s, 1, table == "blockwise" ? g.fp8_blockwise_speedup : g.fp8_speedup), measured);
    }
  }
  std::string text = heading("matrix products");
  for (const auto& [name, score] : scores) text += line(name, score);
  MESSAGE(text);
  CHECK(seen.at("bursta100-80g-sxm") == 486);
  CHECK(seen.at("bursth200-sxm") == 567);
  CHECK(seen.at("burstl40s") == 486);
  for (const char* name : {"a100-80g-sxm", "h200-sxm", "l40s"}) {
    CAPTURE(name);
    CHECK(scores.at(fmt::format("{} m >= 1024 held out", name)).mean() <= .05);
    CHECK(scores.at(fmt::format("{} all       held out", name)).mean() <= .08);
  }
}

TEST_CASE("fused attention") {
  using models::AttentionKernel;
  std::map<std::string, Score> scores;
  std::map<std::string, std::size_t> seen;
  for (const Row& row : rows("kernels_attention.csv")) {
    const auto& name = row.at("gpu");
    const auto& kernel = row.at("kernel");
    cluster::Gpu g = gpu(name == "a100-pcie" ? "a100-80g-sxm" : name);
    // The 300 W version, of which only the loss with few heads matters: its own rate, fitted.
    if (name == "a100-pcie") g.fused_attention_rate = FlopRate(196e12);
    const AttentionKernel asked = kernel == "flash-3" ? AttentionKernel::flash3
                                  : kernel == "cudnn" ? AttentionKernel::cudnn
                                                      : AttentionKernel::flash2;
    REQUIRE(cost::attention_kernel(g, asked) == asked);
    const auto sequence = std::stoll(row.at("sequence"));
    FusedAttention s{std::stoll(row.at("batch")),    std::stoll(row.at("heads")), sequence, sequence,
                     std::stoll(row.at("head_dim")), row.at("causal") == "yes",   false};
    double predicted = 0, flops = 0;
    for (const bool backward : {false, true}) {
      if (row.at("direction") == (backward ? "fwd" : "bwd")) continue;
      s.backward = backward;
      predicted += cost::attention_time(g, s, asked);
      flops += s.flops().value();
    }
    const double measured = flops / (std::stod(row.at("tflops")) * 1e12);
    // Every other row of a kernel; cuDNN was fitted per GPU.
    const bool held_out = seen[kernel == "cudnn" ? kernel + name : kernel]++ % 2;
    const char* part = held_out ? "held out" : "fitted";
    scores[fmt::format("{} on {} {}", kernel, name, part)].add(predicted, measured);
    if (name != "b200-sxm") scores[fmt::format("without B200 {}", part)].add(predicted, measured);
  }
  std::string text = heading("fused attention");
  for (const auto& [name, score] : scores) text += line(name, score);
  MESSAGE(text);
  CHECK(scores.at("without B200 held out").mean() <= .05);
  CHECK(scores.at("flash-2 on a100-80g-sxm held out").mean() <= .03);
  CHECK(scores.at("flash-2 on h100-80g-sxm held out").mean() <= .05);
  CHECK(scores.at("flash-3 on h100-80g-sxm held out").mean() <= .05);
  CHECK(scores.at("cudnn on h100-80g-sxm held out").mean() <= .05);
  // Few heads and very long sequences in one table: the goal of 5 % is missed, by .12 with the best rate for these
  // kernels. Long steps of training contradict that rate (configs/gpus/b200-sxm.yaml), and have theirs.
  CHECK(scores.at("cudnn on b200-sxm held out").mean() <= .14);
}
