// Laws of the task graph and of results derived from it, over random trainings: which option may change which bytes,
// and sums that hold in every answer.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <numeric>

#include "answer/predict.hpp"
#include "predicted.hpp"
#include "random_training.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

template <class T>
const T& drawn(Random& random, const std::vector<T>& all) {
  return all[random.below(all.size())];
}

// A small training with replicas. Rings alone, whose bytes are those of the closed form.
struct Replicated {
  std::string text;
  int tensor = 1, pipeline = 1, zero = 0;
  bool moe = false, sequence = false;

  explicit Replicated(Random& random) {
    tensor = drawn<int>(random, {1, 2, 4}), pipeline = drawn<int>(random, {1, 1, 2, 4});
    zero = int(random.below(4)), moe = random.below(4) == 0;
    sequence = tensor > 1 && random.below(2) == 0;
    const int data = drawn<int>(random, {2, 4}), context = moe ? 1 : drawn<int>(random, {1, 1, 2});
    const int micro = drawn<int>(random, {1, 2}), microbatches = pipeline * drawn<int>(random, {1, 2});
    const bool two = pipeline > 1 && random.below(4) == 0;  // chunks
    const auto schedule = two            ? "interleaved-1f1b"
                          : pipeline > 1 ? drawn<const char*>(random, {"1f1b", "gpipe", "zb-h1", "eager-1f1b"})
                                         : "1f1b";
    const auto model = moe ? fmt::format(
                                 "{{family: moe, layers: 8, hidden: 1024, heads: 16, experts: 16, "
                                 "experts_per_token: 2, expert_ffn: 256, shared_experts: {}, dense_layers: {}, "
                                 "ffn: 1024, vocabulary: 32000, sequence: 512}}",
                                 random.below(2), random.below(2))
                           : fmt::format(
                                 "{{family: {}, layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, "
                                 "sequence: 512, tie_embeddings: {}}}",
                                 drawn<const char*>(random, {"gpt", "llama"}), random.below(2) == 0);
    const auto expert = moe ? fmt::format(", expert: {}", drawn<int>(random, {1, 2, data})) : "";
    const auto framework = drawn<const char*>(
        random, {"megatron-2021", "megatron-2025", "titan-2025", "fsdp-2023", "deepspeed-2021", "oneflow-2021"});
    const auto overlap = drawn<const char*>(
        random, {"", "", ", gradient_overlap: always", ", gradient_overlap: never", ", gather_overlap: true"});
    text = fmt::format(
        "version: 1\nmodel: {}\ncluster: dgx-a100-80g\n"
        "parallelism: {{tensor: {}, sequence: {}, context: {}, pipeline: {}, chunks: {}, data: {}, zero: {}{}}}\n"
        "batch: {{global: {}, micro: {}}}\nschedule: {}\nframework: {{use: {}{}, nccl: 2.3}}\n",
        model, tensor, sequence, context, pipeline, two ? 2 : 1, data, zero, expert, data * micro * microbatches, micro,
        schedule, framework, overlap);
  }

  // Options that are unrelated to data parallelism.
  Sets some(Random& random) const {
    Sets sets;
    const auto recompute = drawn<const char*>(random, {"none", "selective", "full", "full"});
    sets.push_back(fmt::format("training.recompute={}", recompute));
    const bool full = recompute == std::string("full");
    if (full && random.below(2) == 0)
      sets.push_back(fmt::format("training.offload.activations={}", drawn<const char*>(random, {"host", "nvme"})));
    if (full && tensor > 1 && !sequence && random.below(2) == 0)
      sets.push_back(fmt::format("training.partition_activations={}", drawn<const char*>(random, {"device", "host"})));
    if (zero >= 1 && random.below(4) == 0) sets.emplace_back("training.offload.optimizer=host");
    if (zero >= 2 && !moe && random.below(4) == 0)
      sets.emplace_back("training.offload={optimizer: host, gradients: host}");
    if (zero == 3 && !moe && random.below(4) == 0)
      sets.emplace_back("training.offload={optimizer: nvme, gradients: host, parameters: host}");
    for (const auto& [key, values] : std::vector<std::pair<const char*, std::vector<const char*>>>{
             {"training.kernels", {"fused", "unfused"}},
             {"training.allocator", {"caching", "exact"}},
             {"training.bucket", {"1MB", "25MB", "1GB"}},
             {"training.overlap.pipeline", {"true", "false"}},
             {"training.overlap.parameters", {"true", "false"}},
             {"training.defragment", {"true", "false"}},
             {"training.fsdp.prefetch", {"1", "3"}},
             {"simulate.detail", {"stage", "layer", "operator"}}})
      if (random.below(3) == 0) sets.push_back(fmt::format("{}={}", key, drawn(random, values)));
    return sets;
  }
};

std::optional<answer::TrafficSummary> traffic_of(const std::string& text, const Sets& sets) {
  const auto asked = question(text, sets);
  if (!asked) return std::nullopt;
  return answer::traffic(*asked, Time{});
}

}  // namespace

TEST_CASE("bytes over data are those of the closed form, whatever does not name data parallelism") {
  int asked = 0, checked = 0, apart = 0, mixtures = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    const Replicated training(random);
    const auto plain = traffic_of(training.text, {});
    if (!plain) continue;
    CAPTURE(training.text);
    REQUIRE(plain->data_parallel);
    const double bytes = plain->per_gpu.data;
    // Embedding and head are the root of a model, which ZeRO-3 does not drop between forward and backward: of one
    // gather less, a third of 3 Psi at the most. (With context parallelism or experts their share is larger or
    // smaller.)
    const double closed = plain->data_parallel->closed_form_bytes;
    if (training.zero < 3) CHECK(bytes == doctest::Approx(closed).epsilon(1e-6));
    CHECK(bytes <= closed * (1 + 1e-6));
    CHECK(bytes > closed * 2 / 3);
    ++asked, mixtures += training.moe;
    for (int i = 0; i < 4; ++i) {
      const auto sets = training.some(random);
      // Whole gradients wait on the GPU for the last backward of a pipeline with ZeRO-2; where states leave it, each
      // pass reduces.
      if (training.zero == 2 && training.pipeline > 1 && std::any_of(sets.begin(), sets.end(), [](const auto& set) {
            return says(set, "optimizer") || says(set, "gradients") || says(set, "defragment=true");
          }))
        continue;
      const auto other = traffic_of(training.text, sets);
      if (!other) continue;  // refused
      CAPTURE(fmt::format("{}", fmt::join(sets, " ")));
      CHECK(other->per_gpu.data == doctest::Approx(bytes).epsilon(1e-6));
      CHECK(other->all_gpus.data == doctest::Approx(plain->all_gpus.data).epsilon(1e-6));
      ++checked;
      apart += std::any_of(sets.begin(), sets.end(), [](const auto& set) { return says(set, "activations="); });
    }
  }
  MESSAGE(asked, " trainings, ", checked, " with options, ", apart, " with checkpoints apart, ", mixtures, " mixtures");
  CHECK(asked > 100);
  CHECK(checked > 200);
  CHECK(apart > 20);
  CHECK(mixtures > 10);
}

namespace {

// Sums that hold in every prediction of a step. The program itself checks its parts, and throws if they do not add up.
void check_sums(const answer::Result& run) {
  const auto& s = run.summary;
  const Time parts = std::accumulate(s.breakdown.begin(), s.breakdown.end(), Time{});
  CHECK(parts == s.iteration);
  for (const Time part : s.breakdown) CHECK(part >= Time{});
  REQUIRE(s.contention);
  CHECK(*s.contention >= Time{});
  CHECK(s.bubble_rate >= 0);
  CHECK(s.bubble_rate <= 1);
  CHECK(*s.mfu <= *s.hfu * (1 + 1e-9));
  CHECK(*s.hfu <= 1);
  for (const auto& rank : s.ranks) {
    CHECK(rank.busy <= s.iteration);
    CHECK(rank.peak.allocated <= *rank.peak.reserved);
    CHECK(*rank.peak.reserved <= *rank.peak.device);
  }
  for (const auto& link : s.traffic.links) CHECK(link.busy_share <= 1 + 1e-9);
  for (const auto& place : s.contended) {
    CHECK(place.busy >= 0);
    CHECK(place.busy <= 1 + 1e-9);
  }
}

}  // namespace

TEST_CASE("a step is the sum of its parts, none is negative, and nothing is used beyond what there is") {
  int asked = 0;
  for (std::uint64_t seed = 1000; seed < 1045; ++seed) {
    const RandomTraining training(seed);
    CAPTURE(seed);
    CAPTURE(training.text());
    try {
      check_sums(predicted(training.text(), {}));
      ++asked;
    } catch (const UserError&) {  // does not fit together
    }
  }
  CHECK(asked > 25);
}

TEST_CASE("so it is of operators with tasks of no length, of GPUs of several kinds, and of pieces of sequences") {
  check_sums(predicted(
      "version: 1\nmodel: {family: llama, layers: 10, hidden: 512, heads: 4, kv_heads: 2, ffn: 2048, vocabulary: 8000, "
      "sequence: 4096}\ncluster: dgx-h100\nparallelism: {tensor: 2, pipeline: 4, data: 1, chunks: 2, sequence: true}\n"
      "schedule: zb-v\nbatch: {global: 8, micro: 2}\nframework: megatron-lm-2025\ntraining: {precision: fp8}\n",
      {"simulate.detail=operator"}));
  const std::string mixed =
      "version: 1\nmodel: {family: llama, layers: 16, hidden: 4096, heads: 32, kv_heads: 8, vocabulary: 32000, "
      "sequence: 1024}\ncluster: {use: dgx-a100-80g, groups: [{nodes: 2}, {nodes: 2, gpu: h100-80g-sxm}]}\n"
      "batch: {global: 32, micro: 1}\ntraining: {recompute: selective}\n";
  check_sums(predicted(
      mixed, {"parallelism={tensor: 2, pipeline: 2, data: 8, zero: 3, sequence: true}", "framework=megatron-2021"}));
  check_sums(
      predicted(mixed, {"parallelism={tensor: 4, pipeline: 4, data: 2, sequence: true}", "framework=deepspeed-2021"}));
  check_sums(predicted(
      "version: 1\nmodel: {family: llama, layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, sequence: 4096}\n"
      "cluster: dgx-h100\nparallelism: {pipeline: 4, data: 2}\nbatch: {global: 16, micro: 1}\n"
      "schedule: {name: seq1f1b, pieces: 4}\nframework: megatron-2025\n",
      {}));
}

TEST_CASE("a fault that shortens a step is reported as such") {
  settle();
  const auto asked = [](const char* faults) {
    const auto scenario = scenario::load_text(
        "version: 1\nmodel: {family: gpt, layers: 16, hidden: 1024, heads: 8, kv_heads: 4, head_dim: 128, ffn: 1024, "
        "vocabulary: 8000, sequence: 2048}\ncluster: p3-8xlarge\nparallelism: {tensor: 2, pipeline: 2, data: 2, "
        "chunks: "
        "2, sequence: true, zero: 2}\nschedule: interleaved-1f1b\nbatch: {global: 8, micro: 1}\ntraining: {recompute: "
        "{mode: full, every: 2}, precision: fp16, attention: unfused, kernels: unfused, overlap: {pipeline: true}}\n"
        "framework: titan-2025\n",
        "fault", {std::string("faults=") + faults});
    const auto run = answer::predict(scenario);
    const auto faulted = answer::faulted(*run.lowered, run.timeline);
    const bool gains = run.summary.iteration < faulted.without;
    CHECK(faulted.anomaly == gains);
    const auto named = answer::anomaly_of_faults(faulted, run.summary.iteration);
    CHECK(named.has_value() == gains);
    if (named) CHECK(says(*named, "scheduling anomaly"));
  };
  // Half of an NVLink's rate may let reductions of two replicas miss each other at the NICs.
  for (const char* faults : {"[{nvlink: 0, rate: 0.5}]", "[{gpu: 0, slowdown: 3}]"}) asked(faults);
}
