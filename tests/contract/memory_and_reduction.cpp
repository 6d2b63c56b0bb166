// Gradients in transit to their shards, and memory under memory-saving options: bounded, never more with more saving,
// and a reduction costs the same at every ZeRO stage.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "answer/estimate.hpp"
#include "answer/predict.hpp"

using namespace rehearsal;

namespace {

struct Asked {
  answer::Summary summary;
  answer::Result run;
};
Asked ask(const scenario::Scenario& scenario) {
  auto run = answer::predict(scenario);
  auto summary = run.summary;
  return {std::move(summary), std::move(run)};
}
Asked ask(const std::string& text, const std::vector<std::string>& sets) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("memory_and_reduction.{}.yaml", getpid());
  std::ofstream(path) << text;
  const auto scenario = scenario::load(path.string(), sets);
  std::filesystem::remove(path);
  return ask(scenario);
}

// Sizes of the first rank's reductions, in program order.
std::vector<std::int64_t> reductions(const graph::TaskGraph& graph) {
  std::vector<std::int64_t> sizes;
  const auto& program = graph.programs().front();
  for (std::size_t i = 0; i < program.size(); i++)
    if (program.coordinates[i].pass == graph::Pass::gradient_reduce)
      if (const auto* collective = std::get_if<graph::Collective>(&graph.work(program.work[i])))
        sizes.push_back(collective->size.count());
  return sizes;
}

template <class T>
T pick(std::mt19937_64& random, std::initializer_list<T> from) {
  return *(from.begin() + static_cast<std::ptrdiff_t>(random() % from.size()));
}

// A network so slow that the reductions of a micro-batch take longer than its backward.
constexpr const char* kSlow =
    "version: 1\nmodel: llama2-7b\ncluster: {use: dgx-h100, nodes: 8, links: {scale_out: {bandwidth: 25Gb/s}}}\n"
    "parallelism: {data: 64}\nbatch: {global: 1024, micro: 1, sequence: 1024}\ntraining: {recompute: full}\n"
    "framework: titan-2024\n";
constexpr const char* kNode =
    "version: 1\nmodel: llama3-8b\ncluster: {use: dgx-h100, nodes: 1}\nparallelism: {data: 8, zero: 2}\n"
    "batch: {global: 8, micro: 1}\ntraining: {recompute: full}\nframework: titan-2024\n";

}  // namespace

TEST_CASE("gradients that wait for a slow network are bounded: memory falls from ZeRO-0 to ZeRO-3") {
  double before = 1e18;
  for (const int zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    const double allocated = ask(kSlow, {fmt::format("parallelism.zero={}", zero)}).summary.peak.allocated;
    CHECK(allocated < before);
    before = allocated;
  }
}

TEST_CASE("no more than the bucket that is filled and the batch before it are held") {
  // ZeRO-2 keeps its shard of the gradients, 4 B / 64 per parameter, and whole gradients in transit: a layer has 4 h^2
  // + 3 h f + 2 h = 4 * 4096^2 + 3 * 4096 * 11008 + 8192 = 202,383,360 parameters of 4 B = 809.5 MB, and each of its
  // matrices fills a bucket; so two layers, and nothing of a third.
  const auto run = ask(kSlow, {"parallelism.zero=2"}).run;
  const double layer = 4. * (4. * 4096 * 4096 + 3. * 4096 * 11008 + 2. * 4096);
  double most = 0;
  for (const auto& point : timeline::memory_curve(run.graph(), run.timeline, RankId(0)))
    most = std::max(most, double(point.live[std::size_t(graph::MemoryCategory::communication)].count()));
  CHECK(most == doctest::Approx(2 * layer).epsilon(1e-6));
}

TEST_CASE("the same reductions slow the backward down by the same under ZeRO-1 and ZeRO-2") {
  // One micro-batch: both scatter every bucket once, update the same shards and gather the same parameters.
  for (const char* bucket : {"1MB", "25MB", "300MB", "2GB"}) {
    CAPTURE(bucket);
    const std::string set = std::string("training.bucket=") + bucket;
    const auto one = ask(kNode, {"parallelism.zero=1", set}), two = ask(kNode, {set});
    CHECK(reductions(one.run.graph()) == reductions(two.run.graph()));
    CHECK(one.summary.iteration == two.summary.iteration);
  }
}

TEST_CASE("tensors fill buckets, and none is cut") {
  // A layer of hidden 1024, ffn 4096, fp32 gradients: its backward completes down (16.8 MB), up (16.8), out (4.2) and
  // qkv with all biases and norms (12.6 MB + 13 h). Embedding and head: 51200 * 1024 * 4 = 209.7 MB each, and with the
  // embedding 1024 positions, with the head a norm.
  const char* text =
      "version: 1\nmodel: {family: gpt, layers: 2, hidden: 1024, heads: 16, vocabulary: 51200, sequence: 1024, "
      "tie_embeddings: false}\ncluster: {use: dgx-h100, nodes: 1}\nparallelism: {data: 8}\n"
      "batch: {global: 8, micro: 1}\nframework: {use: oneflow-2021}\n";
  const auto sizes = [&](const char* bucket) {
    return reductions(ask(text, {std::string("training.bucket=") + bucket}).run.graph());
  };
  const std::int64_t h = 1024, down = 4 * 4 * h * h, out = 4 * h * h, qkv = 4 * (3 * h * h + 13 * h),
                     head = 4 * (51200 * h + 2 * h), embedding = 4 * (51200 * h + 1024 * h);
  using Sizes = std::vector<std::int64_t>;
  CHECK(sizes("1MB") == Sizes{head, down, down, out, qkv, down, down, out, qkv, embedding});
  // 16.8 is below 20, 33.6 above; then 4.2 + 12.6, 16.8 and the next 16.8 from the layer below.
  CHECK(sizes("20MB") == Sizes{head, 2 * down, out + qkv + down, down + out, qkv + embedding});
  CHECK(sizes("1GB") == Sizes{head + 2 * (2 * down + out + qkv) + embedding});
}

TEST_CASE("more ZeRO and more recomputation never take more memory") {
  std::mt19937_64 random(11);
  for (int i = 0; i < 40; i++) {
    const int layers = pick(random, {8, 16, 24}), hidden = pick(random, {1024, 2048});
    const bool pipelined = random() % 3 == 0;
    const std::string text = fmt::format(
        "version: 1\nmodel: {{family: {}, layers: {}, hidden: {}, heads: 16, vocabulary: 32000, sequence: 1024}}\n"
        "cluster: {{use: {}, nodes: 2}}\nparallelism: {{pipeline: {}, tensor: {}, sequence: true}}\n"
        "batch: {{global: {}, micro: {}}}\nschedule: 1f1b\n"
        "training: {{precision: bf16, gradient_precision: {}, bucket: {}, attention: {}}}\n",
        pick(random, {"gpt", "llama"}), layers, hidden, pick(random, {"dgx-h100", "dgx-a100-80g", "l40s-pcie"}),
        pipelined ? 2 : 1, pick(random, {1, 2}), pick(random, {64, 128}), pick(random, {1, 2}),
        pick(random, {"bf16", "fp32"}), pick(random, {"1MB", "25MB", "50MB"}), pick(random, {"flash", "unfused"}));
    CAPTURE(text);
    for (const char* recompute : {"none", "full"}) {
      double before = 1e18;
      for (const int zero : {0, 1, 2, 3}) {
        CAPTURE(zero);
        const auto a =
            ask(text, {fmt::format("parallelism.zero={}", zero), fmt::format("training.recompute={}", recompute)});
        CHECK(a.summary.peak.allocated <= before);
        before = a.summary.peak.allocated;
        for (const auto& rank : a.summary.ranks) {
          const auto sum = std::accumulate(rank.memory.begin(), rank.memory.end(), Bytes{});
          CHECK(double(sum.count()) == rank.peak.allocated);
          CHECK(a.summary.peak.allocated >= rank.peak.allocated);
          CHECK(*a.summary.peak.reserved >= *rank.peak.reserved);
          CHECK(*a.summary.peak.device >= *rank.peak.device);
        }
      }
    }
    double before = 1e18;
    for (const char* recompute : {"none", "selective", "full"}) {
      CAPTURE(recompute);
      const double peak = ask(text, {fmt::format("training.recompute={}", recompute)}).summary.peak.allocated;
      CHECK(peak <= before);
      before = peak;
    }
  }
}

TEST_CASE("the job's memory is the largest of each kind over its ranks") {
  // The last rank holds the fewest bytes and opens the fewest communicators; another holds the most.
  const auto summary =
      ask("version: 1\nmodel: {family: llama, layers: 32, hidden: 2048, heads: 32, vocabulary: 50304, sequence: "
          "512, kv_heads: 8, ffn: 6144, tie_embeddings: false}\ncluster: gb200-nvl72\n"
          "parallelism: {tensor: 8, pipeline: 8, data: 1, sequence: true}\nschedule: zb-h1\n"
          "batch: {global: 4, micro: 4}\n"
          "training: {precision: fp32, recompute: selective, attention: unfused, optimizer: sgd}\n",
          {})
          .summary;
  double allocated = 0, reserved = 0, device = 0;
  for (const auto& rank : summary.ranks) {
    allocated = std::max(allocated, rank.peak.allocated);
    reserved = std::max(reserved, *rank.peak.reserved);
    device = std::max(device, *rank.peak.device);
  }
  CHECK(summary.peak.allocated == allocated);
  CHECK(*summary.peak.reserved == reserved);
  CHECK(*summary.peak.device == device);
}
