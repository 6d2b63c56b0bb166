// Schedules that train two copies of a model in opposite directions, as frameworks run them: what a rank holds, which
// ranks reduce which gradients, and the time of that.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "predicted.hpp"

using namespace rehearsal;
using contract::Sets;

namespace {

// A layer: 4 h^2 + 8 h^2 + 13 h = 12,596,224 parameters. Two of them to a stage.
const std::string kDense =
    "version: 1\nmodel: {family: gpt, layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, sequence: 512, "
    "tie_embeddings: false}\ncluster: {use: dgx-h100, nodes: 1}\nparallelism: {pipeline: 4}\n"
    "batch: {global: 32, micro: 1}\ntraining: {precision: bf16, gradient_precision: fp32}\n"
    "framework: megatron-2024\nschedule: dualpipe\n";
const std::string kExperts =
    "version: 1\nmodel: {use: qwen3-30b-a3b, layers: 8}\ncluster: {use: dgx-h100, nodes: 4}\n"
    "parallelism: {pipeline: 4, expert: 4, zero: 1}\nbatch: {global: 128, micro: 1}\ntraining: {precision: bf16}\n"
    "framework: megatron-2025\nschedule: dualpipe\n";

answer::Result run(const Sets& sets, const std::string& text = kDense) { return contract::predicted(text, sets); }

double held(const answer::Result& p, std::size_t rank, graph::MemoryCategory category) {
  double sum = 0;
  for (const auto& buffer : p.graph().program_of(p.graph().ranks()[rank]).resident())
    if (buffer.category == category) sum += double(buffer.size.count());
  return sum;
}

// Sizes and group sizes of a rank's gradient reductions.
std::vector<std::pair<std::int64_t, std::uint32_t>> reductions(const answer::Result& p, std::size_t rank) {
  std::vector<std::pair<std::int64_t, std::uint32_t>> all;
  const auto& program = p.graph().program_of(p.graph().ranks()[rank]);
  for (std::size_t t = 0; t < program.size(); t++)
    if (program.coordinates[t].pass == graph::Pass::gradient_reduce) {
      const auto& sum = std::get<graph::Collective>(p.graph().work(program.work[t]));
      all.emplace_back(sum.size.count(), sum.group.ranks);
    }
  return all;
}

}  // namespace

TEST_CASE("a rank holds two stages whole, and shares of the optimizer with the replicas of both directions") {
  // Rank 1 of 4 holds stage 1 of one copy and stage 2 of the other: 4 layers. 2 pipelines in 2 directions: 4 replicas.
  const double count = 4 * 12'596'224.;
  using enum graph::MemoryCategory;
  for (const char* schedule : {"dualpipe", "chimera"}) {
    CAPTURE(schedule);
    const std::string set = std::string("schedule=") + schedule;
    const auto whole = run({set}), sharded = run({set, "parallelism.zero=1"});
    CHECK(held(whole, 1, parameters) == 2 * count);
    CHECK(held(whole, 1, optimizer) == 12 * count);
    CHECK(held(sharded, 1, parameters) == 2 * count);
    CHECK(held(sharded, 1, optimizer) == 12 * count / 4);
    CHECK(held(run({set, "parallelism.zero=3"}), 1, optimizer) < 12 * count / 4);
  }
}

TEST_CASE("gradients of both directions are added up, also of a single pipeline") {
  const std::int64_t all = 4 * 12'596'224;
  const auto twice = run({"training.gradient_precision=fp32", "training.overlap={gradients: false}"});
  CHECK(reductions(twice, 1) == std::vector<std::pair<std::int64_t, std::uint32_t>>{{4 * all, 4}});
  const Sets single{"training.gradient_precision=fp32", "training.overlap={gradients: false}",
                    "cluster.gpus_per_node=4"};
  CHECK(reductions(run(single), 1) == std::vector<std::pair<std::int64_t, std::uint32_t>>{{4 * all, 2}});
  auto one_way = single;
  one_way.push_back("schedule=1f1b");
  CHECK(reductions(run(one_way), 1).empty());
}

TEST_CASE("ranks that hold the same meet: of all pipelines, p and its mirror image") {
  for (const char* placement :
       {"[tensor, context, expert, data, pipeline]", "[pipeline, tensor, context, expert, data]"}) {
    CAPTURE(placement);
    const auto every = run({"simulate.symmetry=off", std::string("placement=") + placement});
    std::size_t groups = 0;
    for (const auto& group : every.graph().groups()) {
      std::multiset<std::uint32_t> pipeline;
      for (const auto& member : group.members)
        pipeline.insert(every.graph().ranks()[member.rank.index()].place[Axis::pipeline]);
      const auto p = *pipeline.begin();
      CHECK(pipeline == std::multiset<std::uint32_t>{p, p, 3 - p, 3 - p});
      ++groups;
    }
    CHECK(groups == 2);
  }
}

TEST_CASE("one table serves both ends of a tied embedding, and its gradients travel once") {
  // Rank 0 has the embedding of one direction and the head of the other.
  const Sets tied{"model.tie_embeddings=true", "training.bucket=25MB"}, untied{"training.bucket=25MB"};
  const double table = 32000 * 1024.;
  const auto one = run(tied), two = run(untied);
  using enum graph::MemoryCategory;
  CHECK(held(two, 0, optimizer) - held(one, 0, optimizer) == 12 * table);
  CHECK(reductions(two, 0).front().first > reductions(one, 0).front().first);
  for (const auto& program : one.graph().programs())
    for (const auto& at : program.coordinates) CHECK(at.pass != graph::Pass::embedding_reduce);
}

TEST_CASE("ranks without a layer reduce nothing with their mirror images") {
  // 2 layers of experts on 4 pipeline ranks: the first and the last have none in either direction.
  const std::string text =
      "version: 1\nmodel: {family: moe, layers: 2, hidden: 1024, heads: 16, experts: 8, experts_per_token: 2, "
      "expert_ffn: 256, vocabulary: 32000, sequence: 512}\ncluster: {use: dgx-h100, nodes: 1}\n"
      "parallelism: {pipeline: 4, tensor: 2}\nbatch: {global: 8}\ntraining: {precision: bf16}\n"
      "framework: megatron-2025\nschedule: dualpipe\n";
  const auto prediction = run({}, text);
  std::set<double> with_experts;
  for (const auto& group : prediction.graph().groups())
    for (const auto& member : group.members)
      if (group.axes.holds(Axis::expert_data))
        with_experts.insert(held(prediction, member.rank.index(), graph::MemoryCategory::parameters));
  // Each layer has 8 experts of 3 x 1024 x 256, split in halves, 2 bytes each, and rank 1 has one of each direction.
  REQUIRE(!with_experts.empty());
  CHECK(*with_experts.begin() > 2 * 8 * 3 * 1024 * 256);
  CHECK_FALSE(with_experts.count(held(prediction, 0, graph::MemoryCategory::parameters)));
  CHECK(!reductions(prediction, 0).empty());  // of its embedding tables
}

TEST_CASE("replicas far apart pay for the network") {
  // 4 pipeline ranks of 2 nodes of 4 GPUs: the mirror image of a rank is on the other node.
  const Sets near{"cluster.nodes=1"}, far{"cluster.gpus_per_node=4", "cluster.nodes=2"};
  auto slow = far;
  slow.push_back("cluster.links.scale_out.bandwidth=50Gb/s");
  CHECK(run(far).summary.iteration > run(near).summary.iteration);
  CHECK(run(slow).summary.iteration > run(far).summary.iteration);
}

TEST_CASE("experts are reduced over their own replicas in both directions") {
  // 8 GPUs per pipeline rank, 4 of which share the experts: 2 replicas of experts in each direction, and 8 of the rest.
  std::set<std::uint32_t> members;
  for (const auto& [size, ranks] : reductions(run({}, kExperts), 1)) members.insert(ranks);
  CHECK(members == std::set<std::uint32_t>{4, 16});
}
