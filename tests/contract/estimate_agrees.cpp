// answer::estimate, which walks the schedule, against the simulated task graph: the same iteration to the picosecond on
// random layouts; and it says when it had to build the graph.
#include <doctest/doctest.h>

#include <random>

#include "answer/estimate.hpp"
#include "answer/predict.hpp"

using namespace rehearsal;

namespace {

template <class T>
T pick(std::mt19937_64& random, std::initializer_list<T> from) {
  return *(from.begin() + static_cast<std::ptrdiff_t>(random() % from.size()));
}

}  // namespace

TEST_CASE("an estimate is the simulated iteration") {
  const auto base = scenario::load(PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml");
  std::mt19937_64 random(7);
  int walked = 0, built = 0, tied = 0;
  for (int i = 0; i < 150;) {
    auto s = base;
    auto& p = s.parallelism;
    p.tensor = pick<std::int64_t>(random, {1, 2, 8});
    p.sequence = p.tensor > 1 && random() % 2;
    p.pipeline = pick<std::int64_t>(random, {1, 2, 4, 8, 16});
    p.data = s.concrete->cluster.gpus() / (p.tensor * p.pipeline);
    p.chunks = p.pipeline > 1 ? pick<std::int64_t>(random, {1, 1, 2, 3}) : 1;
    p.zero = pick(random, {0, 1, 1, 2, 3});
    s.batch.micro = pick<std::int64_t>(random, {1, 2, 4});
    s.concrete->model.tie_embeddings = random() % 2;
    s.concrete->framework.blocking_sends = random() % 2;
    // Down to rates at which messages queue for their NIC.
    s.concrete->cluster.nic = Bandwidth(pick(random, {25e9, 25e9, 1e9, 1e8}));
    s.concrete->training.recompute_every = pick<std::int64_t>(random, {1, 1, 3});
    s.concrete->training.kernels = pick(random, {models::Kernels::fused, models::Kernels::unfused});
    s.concrete->framework.async_tensor = random() % 2;
    if (random() % 4 == 0) s.concrete->partition.kind = plan::Partition::Kind::balanced;
    s.concrete->training.bucket = pick(random, {Bytes(1'000'000), Bytes(25'000'000), Bytes(600'000'000)});
    auto& training = s.concrete->training;
    using models::Buffers;
    training.buffers = pick(random, {Buffers::framework, Buffers::framework, Buffers::growing, Buffers::constant});
    training.buffer_size.reset();
    if (training.buffers == Buffers::constant) training.buffer_size = Bytes(200'000'000);
    s.concrete->framework.gradient_overlap =
        pick(random, {models::GradientOverlap::never, models::GradientOverlap::without_pipeline});
    if (s.batch.global % (p.data * s.batch.micro) != 0) continue;
    if (p.chunks > 1 && s.microbatches() % p.pipeline != 0) continue;
    s.schedule.name = p.chunks > 1 ? "interleaved-1f1b" : pick<const char*>(random, {"1f1b", "gpipe", "zb-h1"});
    i++;
    CAPTURE(p.tensor);
    CAPTURE(p.pipeline);
    CAPTURE(p.zero);
    CAPTURE(s.schedule.name);
    s.simulate.contention = scenario::Contention::off;
    const auto estimate = answer::estimate(s);
    CHECK(estimate.iteration == answer::predict(s).timeline.makespan());
    // On one pipeline rank a reduction during the backward is also walked, unless input and weight gradients are
    // separate.
    const bool overlaps = p.pipeline == 1 && training.buffers != Buffers::growing &&
                          s.concrete->framework.gradient_overlap != models::GradientOverlap::never;
    const bool apart = s.schedule.name == "zb-h1" || training.buffers == Buffers::constant;
    const bool beside = p.zero >= 2 || (overlaps && apart);
    CHECK(estimate.by_graph == (beside && p.data > 1));
    (estimate.by_graph ? built : walked)++;
    tied += s.concrete->model.tie_embeddings && p.pipeline > 1 && !estimate.by_graph;
  }
  // All cases occurred: both ways, and tasks with two ends that meet.
  CHECK(walked > 40);
  CHECK(built > 20);
  CHECK(tied > 10);
}
