// `partition: balanced` is never slower than evenly divided layers, for any schedule, ends and network.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "answer/estimate.hpp"
#include "answer/stage_costs.hpp"

using namespace rehearsal;

namespace {

template <class T>
T pick(std::mt19937_64& random, std::initializer_list<T> from) {
  return *(from.begin() + static_cast<std::ptrdiff_t>(random() % from.size()));
}

}  // namespace

TEST_CASE("balanced is never slower than uniform") {
  const auto base = scenario::load(PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml");
  std::mt19937_64 random(3);
  int faster = 0, even = 0;
  for (int i = 0; i < 100;) {
    auto s = base;
    auto& p = s.parallelism;
    p.tensor = pick<std::int64_t>(random, {1, 2, 8});
    p.sequence = p.tensor > 1;
    p.pipeline = pick<std::int64_t>(random, {2, 3, 4, 6, 8});
    p.chunks = pick<std::int64_t>(random, {1, 1, 2});
    p.data = pick<std::int64_t>(random, {1, 2, 4});
    p.zero = pick(random, {0, 1});
    auto& model = s.concrete->model;
    model.layers = pick<std::int64_t>(random, {12, 17, 24, 25, 32});
    model.hidden = pick<std::int64_t>(random, {1024, 2048, 4096});
    model.heads = 16, model.kv_heads = 16, model.head_dim = model.hidden / 16, model.ffn = 4 * model.hidden;
    model.vocabulary = pick<std::int64_t>(random, {32000, 51200, 250000});
    model.tie_embeddings = random() % 2;
    s.concrete->framework.gradient_overlap =
        pick(random, {models::GradientOverlap::never, models::GradientOverlap::without_pipeline});
    s.concrete->framework.blocking_sends = random() % 2;
    s.concrete->training.recompute = pick(random, {models::Recompute::none, models::Recompute::full});
    s.batch.micro = pick<std::int64_t>(random, {1, 2});
    s.batch.global = p.pipeline * pick<std::int64_t>(random, {1, 2, 4}) * p.data * s.batch.micro;
    if (model.layers < p.stages()) continue;
    s.schedule.name = p.chunks > 1 ? "interleaved-1f1b" : pick<const char*>(random, {"1f1b", "gpipe", "zb-h1"});
    i++;
    CAPTURE(p.tensor);
    CAPTURE(p.pipeline);
    CAPTURE(p.chunks);
    CAPTURE(model.layers);
    CAPTURE(model.vocabulary);
    CAPTURE(s.schedule.name);
    CAPTURE(s.microbatches());
    const Time uniform = answer::estimate(s).iteration;
    s.concrete->partition.kind = plan::Partition::Kind::balanced;
    const Time balanced = answer::estimate(s).iteration;
    CHECK(balanced <= uniform);
    faster += balanced < uniform;
    for (const auto& assumption : answer::stage(s).assumptions)
      even += assumption.find("dealing the layers evenly") != std::string::npos;
  }
  CHECK(faster > 20);  // it has an effect
  CHECK(even > 0);     // cases in which an even slowest stage gives a longer iteration occur
}

TEST_CASE("neither is it between stages that are cut otherwise or stand on other GPUs") {
  std::mt19937_64 random(5);
  int faster = 0;
  for (int i = 0; i < 40; i++) {
    const auto pipeline = pick<std::int64_t>(random, {2, 3, 4});
    const auto layers = pick<std::int64_t>(random, {8, 13, 16, 24});
    std::string stages, groups;
    constexpr std::int64_t sequences = 4;  // per micro-batch, over all replicas
    std::int64_t micro = 0;
    for (std::int64_t stage = 0; stage < pipeline; stage++) {
      const auto tensor = pick<std::int64_t>(random, {2, 4, 8}), data = 8 / tensor;
      stages += fmt::format("{}{{parallelism: {{tensor: {}, data: {}}}}}", stage ? ", " : "", tensor, data);
      groups += fmt::format("{}{{nodes: 1, gpu: {}}}", stage ? ", " : "",
                            pick<const char*>(random, {"a100-80g-sxm", "h100-80g-sxm", "b200-sxm"}));
      if (stage == 0) micro = sequences / data;
    }
    const auto yaml = fmt::format(
        "{{version: 1, name: unlike, model: {{family: gpt, layers: {}, hidden: 2048, heads: 16, vocabulary: {}, "
        "sequence: 1024, tie_embeddings: false}}, cluster: {{use: dgx-a100-80g, groups: [{}]}}, "
        "batch: {{global: 64, micro: {}}}, framework: megatron-2024, schedule: {}, stages: [{}]}}",
        layers, pick<std::int64_t>(random, {32000, 250000}), groups, micro,
        pick<const char*>(random, {"1f1b", "gpipe"}), stages);
    CAPTURE(yaml);
    auto s = scenario::load_text(yaml, "unlike.yaml");
    const Time uniform = answer::estimate(s).iteration;
    s.concrete->partition.kind = plan::Partition::Kind::balanced;
    const Time balanced = answer::estimate(s).iteration;
    CHECK(balanced <= uniform);
    faster += balanced < uniform;
  }
  CHECK(faster > 10);
}
