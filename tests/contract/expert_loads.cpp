// The distribution of tokens over experts and its cost: nearly uniform is nearly free, more skew is never faster,
// balancing never slower, and the cost has no jumps in the number of experts or tokens.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

const std::string kQwen = R"(version: 1
model: qwen3-30b-a3b
cluster: {use: dgx-h100, nodes: 1}
parallelism: {data: 8, expert: 8, zero: 1}
batch: {global: 8, micro: 1}
framework: megatron-2026
)";
const std::string kTwoRanks = R"(version: 1
model: {family: moe, layers: 4, hidden: 2048, heads: 16, kv_heads: 16, vocabulary: 8000, sequence: 4096, experts: 16, experts_per_token: 2, expert_ffn: 4096}
cluster: {use: dgx-h100, gpus: 2}
parallelism: {data: 2, expert: 2}
batch: {global: 16, micro: 4}
framework: megatron-2025
)";
const std::string kOneRank = R"(version: 1
model: {family: moe, layers: 4, hidden: 2048, heads: 16, kv_heads: 16, vocabulary: 8000, sequence: 4096, experts: 60, experts_per_token: 4, expert_ffn: 1408}
cluster: {use: dgx-h100, gpus: 1}
batch: {global: 4, micro: 1}
framework: megatron-2025
)";

double seconds_of(const std::string& text, const Sets& sets = {}) {
  return to_seconds(predicted(text, sets).summary.iteration);
}
std::string zipf(double exponent) { return fmt::format("experts.skew={{zipf: {}}}", exponent); }

}  // namespace

TEST_CASE("loads a ten-thousandth from uniform take as long as uniform ones") {
  std::vector<double> loads(128, 1);
  loads[0] = 1.0001;
  const double uniform = seconds_of(kQwen);
  CHECK(seconds_of(kQwen, {fmt::format("experts.skew=[{}]", fmt::join(loads, ", "))}) ==
        doctest::Approx(uniform).epsilon(.01));
  CHECK(seconds_of(kQwen, {zipf(0)}) == uniform);
}

TEST_CASE("a token more or less is a token") {
  const double whole = seconds_of(kQwen);
  for (const int sequence : {4095, 4097})
    CHECK(seconds_of(kQwen, {fmt::format("batch.sequence={}", sequence)}) == doctest::Approx(whole).epsilon(.02));
  for (const auto& text : {kTwoRanks, kOneRank})
    CHECK(seconds_of(text, {"batch.sequence=4095"}) == doctest::Approx(seconds_of(text)).epsilon(.02));
  const std::string unfused =
      "version: 1\nmodel: gpt-1.7b\ncluster: {use: dgx-a100-80g, gpus: 1}\nbatch: {global: 4, micro: 1}\nframework: "
      "megatron-2021\ntraining: {attention: unfused, precision: fp16}\n";
  const double square = seconds_of(unfused, {"batch.sequence=4096"});
  for (const int sequence : {4095, 4097})
    CHECK(seconds_of(unfused, {fmt::format("batch.sequence={}", sequence)}) == doctest::Approx(square).epsilon(.05));
}

TEST_CASE("the step grows with the skew") {
  for (const auto& text : {kQwen, kTwoRanks}) {
    double before = 0;
    for (const double exponent : {0., .001, .1, .2, .4, .6, .8, .95, 1., 1.1, 1.2, 1.3}) {
      CAPTURE(exponent);
      const double now = seconds_of(text, {zipf(exponent)});
      CHECK(now >= before);
      if (exponent == .001) CHECK(now < 1.01 * before);
      before = now;
    }
  }
}

// The number of rows is the same, so products take equally long except for their last tiles; weight reads, gradient
// writes and updates are proportional to the experts.
TEST_CASE("any number of experts takes what rows and weights take") {
  const auto with_experts = [](int experts) { return seconds_of(kQwen, {fmt::format("model.experts={}", experts)}); };
  const double usual = with_experts(128);
  for (const int experts : {120, 152, 184, 200}) {
    CAPTURE(experts);
    CHECK(with_experts(experts) > .9 * usual);
    CHECK(with_experts(experts) < (experts > 128 ? 1.05 * experts / 128 : 1.05) * usual);
  }
  CHECK(with_experts(384) < 3 * usual);
  double before = 0;
  for (const int experts : {56, 57, 58, 59, 60, 61, 62, 63, 64}) {
    const double now = seconds_of(kOneRank, {fmt::format("model.experts={}", experts)});
    if (before > 0) CHECK(now == doctest::Approx(before).epsilon(.04));
    before = now;
  }
}

TEST_CASE("balanced experts, with replicas or without, are never slower, and replicas win where there is skew") {
  for (const auto& [text, balance] :
       {std::pair(kQwen, "eplb"), std::pair(kTwoRanks, "eplb"), std::pair(kTwoRanks, "best")})
    for (const double exponent : {0., .001, .2, 1.3}) {
      CAPTURE(exponent);
      const double none = seconds_of(text, {zipf(exponent)});
      const auto balanced = [&, balance = balance, &text = text](int redundant) {
        return seconds_of(text, {zipf(exponent), fmt::format("experts.balance={}", balance),
                                 fmt::format("experts.redundant={}", redundant)});
      };
      const double placed = balanced(0), replicated = balanced(32);
      CHECK(placed <= none);
      CHECK(replicated <= placed);
      if (exponent > 0) CHECK(replicated < none);
    }
}
