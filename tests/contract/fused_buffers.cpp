// Fused gradient buffers (ZeRO-R's CB, arXiv 1910.02054, section 6.2): a buffer that grows with the model costs memory,
// a small buffer of constant size costs bandwidth.
#include <doctest/doctest.h>

#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

const std::string kTwoNodes = R"(version: 1
model: {use: gpt-7.5b, layers: 8}
cluster: {use: dgx-a100-80g, nodes: 2}
parallelism: {tensor: 4, data: 4}
batch: {global: 16, micro: 1}
training: {precision: fp16, recompute: full}
framework: megatron-2022
)";

double fused(const answer::Result& prediction) {
  return held(prediction.summary.ranks.front(), graph::MemoryCategory::communication);
}
std::vector<Bytes> reductions(const answer::Result& prediction) {
  std::vector<Bytes> sizes;
  const auto& graph = prediction.graph();
  const auto& program = graph.program_of(graph.ranks().front());
  for (std::size_t i = 0; i < program.size(); i++)
    if (program.lane[i] == graph::Lane::data_comm && program.coordinates[i].pass == graph::Pass::gradient_reduce)
      sizes.push_back(std::get<graph::Collective>(graph.work(program.work[i])).size);
  return sizes;
}
double seconds_of(const Sets& sets) { return to_seconds(predicted(kTwoNodes, sets).timeline.makespan()); }

}  // namespace

TEST_CASE("a buffer that grows with the model is as large as the gradients, and each goes there and back") {
  const auto usual = predicted(kTwoNodes, {}), growing = predicted(kTwoNodes, {"training.buffers=growing"});
  REQUIRE(reductions(usual).size() == 1);
  CHECK(reductions(growing) == reductions(usual));
  const double gradients = double(reductions(usual).front().count());
  CHECK(fused(usual) == 0);
  CHECK(fused(growing) == gradients);
  CHECK(growing.summary.peak.allocated - usual.summary.peak.allocated == doctest::Approx(gradients));
  const double bandwidth = usual.scenario().concrete->cluster.gpu.sustained_memory_bandwidth.value();
  CHECK(to_seconds(growing.timeline.makespan() - usual.timeline.makespan()) ==
        doctest::Approx(4 * gradients / bandwidth).epsilon(.05));
  // It is full only when all gradients are there, so nothing is reduced before.
  CHECK(seconds_of({"training.buffers=growing", "training.overlap.gradients=true"}) ==
        to_seconds(growing.timeline.makespan()));
  // Only shards are copied back.
  const auto one = predicted(kTwoNodes, {"parallelism.zero=1"});
  const double more =
      seconds_of({"parallelism.zero=1", "training.buffers=growing"}) - to_seconds(one.timeline.makespan());
  CHECK(more == doctest::Approx((2 + 2. / 4) * gradients / bandwidth).epsilon(.05));
}

TEST_CASE("a buffer of a size takes that much memory, and the smaller the slower") {
  const auto with_size = [](const std::string& size, Sets sets = {}) {
    sets.push_back("training.buffers.size=" + size);
    return predicted(kTwoNodes, sets);
  };
  const auto large = with_size("100MB");
  CHECK(fused(large) == 100e6);
  const auto sizes = reductions(large);
  Bytes all;
  for (const auto size : sizes) {
    CHECK(size <= Bytes(100'000'000));
    all += size;
  }
  CHECK(double(all.count()) == doctest::Approx(double(reductions(predicted(kTwoNodes, {})).front().count())));
  double before = seconds_of({"training.buffers=growing"});
  for (const char* size : {"100MB", "10MB", "1MB"}) {
    CAPTURE(size);
    const double now = to_seconds(with_size(size).timeline.makespan());
    CHECK(now > before);
    before = now;
  }
  // During the backward one buffer is filled while the other is sent.
  const Sets overlapped{"training.overlap.gradients=true"};
  CHECK(fused(with_size("100MB", overlapped)) == 200e6);
  CHECK(to_seconds(with_size("100MB", overlapped).timeline.makespan()) < to_seconds(large.timeline.makespan()));
  CHECK(with_size("100GB").timeline.makespan() ==
        predicted(kTwoNodes, {"training.buffers=growing"}).timeline.makespan());
}

TEST_CASE("with ZeRO-2 it is the bucket by another name") {
  const Sets sharded{"parallelism.zero=2"};
  const auto by_bucket = predicted(kTwoNodes, with(sharded, {"training.bucket=200MB"}));
  const auto by_size = predicted(kTwoNodes, with(sharded, {"training.buffers.size=200MB"}));
  CHECK(by_size.timeline.makespan() == by_bucket.timeline.makespan());
  CHECK(by_size.summary.peak.allocated == by_bucket.summary.peak.allocated);
  CHECK(predicted(kTwoNodes, with(sharded, {"training.buffers=growing"})).summary.peak.allocated >
        by_size.summary.peak.allocated + 500e6);
}

TEST_CASE("contradictory input is reported") {
  CHECK(says(refusal(kTwoNodes, {"training.buffers=constant"}), "need a 'size'"));
  CHECK(says(refusal(kTwoNodes, {"training.buffers={kind: growing, size: 1MB}"}), "leave 'kind' out"));
  CHECK(says(refusal(kTwoNodes, {"training.buffers=growing", "training.bucket=1MB"}), "leave one of them out"));
  CHECK(says(refusal(kTwoNodes, {"training.buffers.size=1kB"}), "make it larger"));
}
