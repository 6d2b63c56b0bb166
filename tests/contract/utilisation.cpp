// Utilisation is consistent: MFU <= HFU <= 1, whatever is frozen, dropped, split or computed in another format.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

const std::string kLlama = R"(version: 1
model: {family: llama, layers: 8, hidden: 2048, heads: 16, kv_heads: 4, ffn: 5632, vocabulary: 32000, sequence: 4096}
cluster: dgx-h100
parallelism: {data: 8}
batch: {global: 32, micro: 1}
framework: megatron-2025
)";
const std::string kLong = R"(version: 1
model: {family: gpt, layers: 4, hidden: 2048, heads: 16, vocabulary: 1024, sequence: 16384}
cluster: dgx-a100-80g
parallelism: {data: 8}
batch: {global: 8, micro: 1}
framework: megatron-2024
)";
const std::string kExperts = R"(version: 1
model: {family: moe, layers: 4, hidden: 2048, heads: 16, kv_heads: 16, vocabulary: 8000, sequence: 4096, experts: 16, experts_per_token: 2, expert_ffn: 4096}
cluster: dgx-h100
parallelism: {data: 8, expert: 8}
batch: {global: 16, micro: 1}
framework: megatron-2025
)";

answer::Summary summary(const std::string& text, const Sets& sets = {}) { return predicted(text, sets).summary; }

}  // namespace

TEST_CASE("MFU <= HFU <= 1") {
  const std::vector<std::pair<std::string, Sets>> all{
      {kLlama, {}},
      {kLlama, {"training.lora=16"}},
      {kLlama, {"training={lora: 16, recompute: full}"}},
      {kLlama, {"training.precision=fp32"}},
      {kLlama, {"training.precision=fp8"}},
      {kLlama, {"training.precision=fp32", "training.attention=unfused"}},
      {kLong, {}},
      {kLong, {"training.precision=fp32"}},
      {kLong, {"parallelism={data: 2, context: 4}", "training={context: ring, context_balance: false}"}},
      {kLong, {"parallelism={data: 2, context: 4}", "training={context: all-gather, context_balance: false}"}},
      {kLong, {"parallelism={data: 2, context: 4}", "training={context: all-gather}"}},
      {kLong, {"parallelism={data: 2, pipeline: 4}", "schedule={name: seq1f1b, pieces: 4}", "batch.global=32"}},
      {kExperts, {}},
      {kExperts, {"experts.capacity=0.5"}},
      {kExperts, {"experts={capacity: 1, skew: {zipf: 1}}"}},
  };
  for (const auto& [text, sets] : all) {
    CAPTURE(fmt::format("{} {}", text.substr(11, 60), fmt::join(sets, " ")));
    const auto s = summary(text, sets);
    CHECK(*s.mfu <= *s.hfu * (1 + 1e-9));
    CHECK(*s.hfu <= 1);
  }
}

TEST_CASE("of frozen weights no gradient counts: two thirds, but for attention") {
  const auto all = predicted(kLlama, {}), frozen = predicted(kLlama, {"training.lora=16"});
  const double ratio = frozen.lowered->model_flops.value() / all.lowered->model_flops.value();
  CHECK(ratio > 2. / 3);
  CHECK(ratio < .75);
}

TEST_CASE("pieces of a sequence together count as the sequence does") {
  const auto hardware = [](const Sets& sets) { return predicted(kLong, sets).lowered->hardware_flops.value(); };
  const Sets pipeline{"parallelism={data: 2, pipeline: 4}", "batch.global=32"};
  CHECK(hardware(with(pipeline, {"schedule={name: seq1f1b, pieces: 4}"})) ==
        doctest::Approx(hardware(with(pipeline, {"schedule=1f1b"}))).epsilon(1e-6));
}

TEST_CASE("in fp32 activations have four bytes, and so has what travels") {
  const Sets tensor{"parallelism={tensor: 2, data: 4}"};
  const auto wide = summary(kLlama, with(tensor, {"training.precision=fp32"})), narrow = summary(kLlama, tensor);
  CHECK(wide.traffic.per_gpu.tensor == doctest::Approx(2 * narrow.traffic.per_gpu.tensor).epsilon(1e-9));
  const auto activations = [](const answer::Summary& s) {
    return held(s.ranks.front(), graph::MemoryCategory::activations);
  };
  CHECK(activations(wide) > 1.8 * activations(narrow));
}

TEST_CASE("products in 8 bits go by the peak of 8 bits, and by that of bf16 not") {
  const char* free = "framework.host_time_per_kernel=0us";  // else a host bounds the faster one
  const auto step = [free](const char* peak) {
    return to_seconds(
        summary(kLlama, {"training.precision=fp8", free,
                         fmt::format("cluster={{use: dgx-h100, gpu: {{use: h100-80g-sxm, peak: {{{}}}}}}}", peak)})
            .iteration);
  };
  const double usual = to_seconds(summary(kLlama, {"training.precision=fp8", free}).iteration);
  CHECK(step("fp8: 1979TFLOP/s, bf16: 989TFLOP/s") == usual);
  CHECK(step("fp8: 990TFLOP/s, bf16: 989TFLOP/s") > 1.1 * usual);
  CHECK(step("fp8: 3958TFLOP/s, bf16: 989TFLOP/s") < .95 * usual);
}
