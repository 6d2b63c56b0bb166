// ZeRO-1 that gathers updated parameters during the next forward (Megatron-Core's --overlap-param-gather): as many
// bytes as after the update, in the order of the forward, and waited for where they are needed.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "predicted.hpp"

using namespace rehearsal;
using namespace rehearsal::contract;

namespace {

// A layer: 4 h^2 + 8 h^2 + 13 h = 50,358,272 parameters, of 2 bytes; embedding (2048 + 1024) h, head and last norm.
const std::string kTwoNodes = R"(version: 1
model: {family: gpt, layers: 6, hidden: 2048, heads: 16, vocabulary: 2048, sequence: 1024, tie_embeddings: false}
cluster: {use: dgx-a100-80g, nodes: 2}
parallelism: {data: 16, zero: 1}
batch: {global: 32, micro: 1}
training: {precision: bf16, bucket: 1MB}
framework: {use: megatron-2022, gather_overlap: true}
simulate: {contention: off}
)";

struct Gather {
  std::int64_t bytes;
  std::uint16_t layer;
  Time start, end;
};
std::vector<Gather> gathers(const answer::Result& p, std::size_t rank = 0) {
  std::vector<Gather> all;
  const auto& program = p.graph().program_of(p.graph().ranks()[rank]);
  for (std::size_t i = 0; i < program.size(); ++i)
    if (program.coordinates[i].pass == graph::Pass::parameter_gather) {
      const auto& work = std::get<graph::Collective>(p.graph().work(program.work[i]));
      const auto task = p.graph().task(RankId(rank), LocalTask(i)).index();
      all.push_back({work.size.count(), program.coordinates[i].layer, p.timeline.start[task], p.timeline.end[task]});
    }
  return all;
}
std::int64_t sum(const std::vector<Gather>& all) {
  std::int64_t bytes = 0;
  for (const auto& g : all) bytes += g.bytes;
  return bytes;
}
// When the forward of the first micro-batch reaches a layer.
Time forward_begins(const answer::Result& p, std::uint16_t layer) {
  const auto& program = p.graph().program_of(p.graph().ranks()[0]);
  for (std::size_t i = 0; i < program.size(); ++i)
    if (program.coordinates[i].pass == graph::Pass::forward && program.coordinates[i].layer == layer)
      return p.timeline.start[p.graph().task(RankId(0), LocalTask(i)).index()];
  FAIL("a layer without a forward");
  return {};
}

}  // namespace

TEST_CASE("as many bytes as behind the update, in the order of the forward, from the beginning of the step") {
  const auto under = predicted(kTwoNodes, {}), behind = predicted(kTwoNodes, {"training.overlap.parameters=false"});
  const auto all = gathers(under);
  REQUIRE(gathers(behind).size() == 1);
  CHECK(sum(all) == sum(gathers(behind)));
  const std::int64_t layer = 50'358'272, ends = (2048 + 1024) * 2048 + 2048 * 2048 + 2 * 2048;
  CHECK(sum(all) == 2 * (6 * layer + ends));
  Time before;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].start == before);  // back to back, and none waits
    before = all[i].end;
    if (i > 0 && all[i].layer != graph::kNoLayer && all[i - 1].layer != graph::kNoLayer)
      CHECK(all[i].layer >= all[i - 1].layer);
  }
  // A layer starts when the gathers of its tensors have ended, the embedding after its own.
  Time ended;
  for (std::uint16_t l = 0; l < 6; ++l) {
    for (const auto& g : all)
      if (g.layer == l) ended = std::max(ended, g.end);
    CHECK(forward_begins(under, l) >= ended);
  }
  CHECK(forward_begins(under, 0) > Time{});
  CHECK(gathers(behind).front().end == behind.timeline.makespan());
}

TEST_CASE("what computation hides is saved, and what it cannot hide is waited for") {
  const auto both = [&](const char* nic) {
    const Sets fabric{std::string("cluster.links.scale_out.bandwidth=") + nic};
    const auto under = predicted(kTwoNodes, fabric);
    const auto behind = predicted(kTwoNodes, with(fabric, {"training.overlap.parameters=false"}));
    return std::pair{under, behind};
  };
  // Fast: exposed are only the gather of the embedding, and gathers that end after their layer could start.
  const auto [under, behind] = both("200Gb/s");
  const auto hidden = gathers(behind).front();
  CHECK(under.timeline.makespan() < behind.timeline.makespan());
  CHECK(behind.timeline.makespan() - under.timeline.makespan() <= hidden.end - hidden.start);
  // Slow: the forward of the first micro-batch ends after the last gather, however short its compute.
  const auto [starved, patient] = both("1Gb/s");
  CHECK(starved.timeline.makespan() > gathers(starved).back().end);
  CHECK(starved.timeline.makespan() < patient.timeline.makespan() * 1.02);
}

TEST_CASE("chunks, experts and two directions gather their own, in one order for all that meet") {
  const std::string text = R"(version: 1
model: {use: qwen3-30b-a3b, layers: 8}
cluster: {use: dgx-h100, nodes: 4}
parallelism: {pipeline: 4, expert: 4, zero: 1}
batch: {global: 128, micro: 1}
framework: {use: megatron-2025, gather_overlap: true}
)";
  for (const char* schedule : {"1f1b", "dualpipe", "zb-v"}) {
    CAPTURE(schedule);
    const Sets sets{std::string("schedule=") + schedule,
                    std::string("parallelism.chunks=") + (schedule == std::string("zb-v") ? "2" : "1")};
    const auto under = predicted(text, sets), behind = predicted(text, with(sets, {"framework.gather_overlap=false"}));
    CHECK(under.timeline.makespan() < behind.timeline.makespan());
    for (std::size_t rank = 0; rank < under.graph().ranks().size(); ++rank) {
      CAPTURE(rank);
      CHECK(std::abs(sum(gathers(under, rank)) - sum(gathers(behind, rank))) < 64);  // rounded piece by piece
    }
    const auto whole = predicted(text, with(sets, {"simulate.symmetry=off"}));
    CHECK(whole.timeline.makespan() == under.timeline.makespan());
  }
}

TEST_CASE("the buckets of a framework are those of its release") {
  // Megatron-Core: 40 million parameters, or a million for each replica where that is more.
  const auto pieces = [&](const Sets& sets) {
    Sets all{"training={precision: bf16}"};
    return gathers(predicted(kTwoNodes, with(all, sets))).size();
  };
  CHECK(pieces({"framework.bucket_parameters=400000000"}) == 1);
  CHECK(pieces({"framework.bucket_parameters=1", "framework.bucket_parameters_per_replica=25000000"}) == 1);
  CHECK(pieces({"framework.bucket_parameters=40000000", "framework.bucket_parameters_per_replica=1000000"}) > 4);
}

TEST_CASE("without ZeRO-1 there is nothing to gather, and asking for it is an error") {
  CHECK(says(refusal(kTwoNodes, {"parallelism.zero=0", "training.overlap.parameters=true"}), "with zero 1"));
  CHECK(says(refusal(kTwoNodes, {"parallelism.zero=2", "training.overlap.parameters=true"}), "with zero 1"));
  CHECK(gathers(predicted(kTwoNodes, {"parallelism.zero=0"})).empty());
  CHECK(predicted(kTwoNodes, {"framework.gather_overlap=false", "training.overlap.parameters=true"})
            .timeline.makespan() == predicted(kTwoNodes, {}).timeline.makespan());
}
