// How groups and pipeline hops are placed on nodes, counted by hand.
#include <doctest/doctest.h>

#include <array>

#include "plan/plan.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

// A small GPT on machines of eight GPUs.
Plan planned(Parallelism p, std::int64_t gpus_per_node = 8, std::int64_t copies = 1) {
  Job job;
  job.copies = copies, p.chunks = copies;
  job.model.layers = 64, job.model.hidden = 1024, job.model.heads = 16, job.model.kv_heads = 16;
  job.model.head_dim = 64, job.model.ffn = 4096, job.model.vocabulary = 51200, job.model.sequence = 1024;
  job.parallelism = p;
  job.batch = {p.data, 1, 1024};
  job.cluster.gpus_per_node = gpus_per_node;
  job.cluster.nodes = (p.gpus() + gpus_per_node - 1) / gpus_per_node;
  job.cluster.nics_per_node = gpus_per_node;
  job.cluster.topology.name = "rail-optimized";
  job.cluster.nvlink = Bandwidth(300e9), job.cluster.nic = Bandwidth(25e9);
  return make_plan(job);
}

Parallelism degrees(std::int64_t tensor, std::int64_t pipeline, std::int64_t data) {
  Parallelism p;
  p.tensor = tensor, p.pipeline = pipeline, p.data = data;
  return p;
}

bool crosses(const Plan& plan, std::int64_t stage) {
  const auto hop = plan.hop(stage, stage + 1);
  return plan.machine->reach(hop.from, hop.to).leaves_domain;
}

int crossings(const Plan& plan) {
  int count = 0;
  for (std::int64_t s = 0; s + 1 < plan.job.parallelism.pipeline; s++) count += crosses(plan, s);
  return count;
}

}  // namespace

TEST_CASE("groups of the numbering tensor, data, pipeline") {
  // Members in all, members per node, and the NICs that it uses per node.
  const auto shape = [](const Plan& plan, const GroupShape& group) {
    const auto& reach = plan.machine->reach(group);
    return std::array{reach.ranks, reach.in_domain, reach.nics};
  };
  using Shape = std::array<std::int64_t, 3>;
  // TP 2 x DP 32 on 8 nodes: ranks 0 2 4 6 of a node are in one data group, 1 3 5 7 in the other.
  const auto fig15 = planned(degrees(2, 1, 32));
  CHECK(fig15.group(Axis::tensor) == GroupShape{2, 1});
  CHECK(fig15.group(Axis::data) == GroupShape{32, 2});
  CHECK(shape(fig15, fig15.group(Axis::data)) == Shape{32, 4, 4});
  CHECK(fig15.machine->reach(fig15.group(Axis::tensor)).out.empty());
  // TP 8: a tensor group fills a node, eight data groups have one rank in each.
  const auto full = planned(degrees(8, 1, 4));
  CHECK(full.machine->reach(full.group(Axis::tensor)).out.empty());
  CHECK(shape(full, full.group(Axis::data)) == Shape{4, 1, 1});
  // TP 16 spans two nodes.
  const auto wide = planned(degrees(16, 1, 2));
  CHECK(shape(wide, wide.group(Axis::tensor)) == Shape{16, 8, 8});
  // DP alone: all of a node in one group. Half a node of GPUs: one group.
  const auto data = planned(degrees(1, 1, 64));
  CHECK(shape(data, data.group(Axis::data)) == Shape{64, 8, 8});
  CHECK(planned(degrees(1, 1, 4)).group(Axis::data) == GroupShape{4, 1});
  // The ends of a pipeline of 4 on 4 nodes: eight pairs of GPUs share the NICs of their nodes.
  const auto tied = planned(degrees(2, 4, 4));
  CHECK(tied.group(Axis::pipeline) == GroupShape{2, 24});
  CHECK(shape(tied, tied.group(Axis::pipeline)) == Shape{2, 1, 1});
}

TEST_CASE("every boundary crosses where a node holds one stage only") {
  CHECK(crossings(planned(degrees(8, 4, 2))) == 3);
  CHECK(crossings(planned(degrees(1, 4, 8))) == 3);
  CHECK(crossings(planned(degrees(2, 4, 4))) == 3);
}

TEST_CASE("else p t/8 - 1 of p - 1 boundaries do, one data-parallel replica") {
  struct Case {
    std::int64_t tensor, pipeline;
    int crossing;  // nodes - 1
  };
  for (const auto& [tensor, pipeline, crossing] :
       {Case{1, 8, 0}, {1, 16, 1}, {2, 8, 1}, {2, 16, 3}, {4, 4, 1}, {4, 16, 7}, {8, 8, 7}}) {
    CAPTURE(tensor);
    CAPTURE(pipeline);
    const auto plan = planned(degrees(tensor, pipeline, 1));
    CHECK(crossings(plan) == crossing);
    CHECK(crossing == std::max<std::int64_t>(1, pipeline * tensor / 8) - 1);
  }
  // TP 2 x DP 2: stages of 4 GPUs, two in a node: 4 nodes, 3 of 7 boundaries.
  const auto two = planned(degrees(2, 8, 2));
  CHECK(crossings(two) == 3);
  CHECK(crosses(two, 1));
  CHECK_FALSE(crosses(two, 0));
}

TEST_CASE("groups of two directions: as many to a node as of the first and the last pipeline rank") {
  const auto group = [](std::int64_t tensor, std::int64_t pipeline, std::int64_t data) {
    return planned(degrees(tensor, pipeline, data), 8, 2).group(Axis::data);
  };
  CHECK(group(1, 4, 2) == GroupShape{4, 1});   // all eight ranks on one node: the closest possible
  CHECK(group(1, 8, 8) == GroupShape{16, 1});  // a node of each end
  CHECK(group(1, 8, 4) == GroupShape{8, 2});   // four of each end, on two nodes: four to a node
  CHECK(group(1, 16, 1) == GroupShape{2, 8});  // ranks 0 and 15, on two nodes
  CHECK(group(8, 4, 2) == GroupShape{4, 8});   // every rank on a node of its own
  CHECK(planned(degrees(1, 16, 1)).group(Axis::data).ranks == 1);
}
