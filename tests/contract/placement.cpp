// `placement`: which ranks are neighbours decides the cost of communication, and nothing else.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "answer/predict.hpp"

using namespace rehearsal;

namespace {

const std::string kLlama = PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml";
const char* const kOrders[] = {"[tensor, context, expert, data, pipeline]", "[data, tensor, context, expert, pipeline]",
                               "[pipeline, tensor, context, expert, data]", "[tensor, pipeline, expert, data, context]",
                               "[pipeline, data, expert, context, tensor]"};

answer::Result ask(const std::vector<std::string>& sets, const std::string& order) {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  auto all = sets;
  if (!order.empty()) all.push_back("placement=" + order);
  return answer::predict(scenario::load(kLlama, all));
}

// Tensor 4, pipeline 2, data 4 on four nodes of eight.
const std::vector<std::string> kFourNodes = {
    "batch.global=16", "cluster.nodes=4",       "parallelism={tensor: 4, pipeline: 2, data: 4}",
    "batch.micro=1",   "simulate.symmetry=off", "simulate.detail=operator"};

// Nodes that the group of rank 0 along an axis reaches.
std::size_t nodes_of(const graph::TaskGraph& graph, Axis axis) {
  for (const auto& group : graph.groups()) {
    if (group.axes != axis || group.members.front().rank != RankId(0)) continue;
    std::vector<std::uint32_t> nodes;
    for (const auto& member : group.members) nodes.push_back(graph.ranks()[member.rank.index()].node);
    std::sort(nodes.begin(), nodes.end());
    return static_cast<std::size_t>(std::unique(nodes.begin(), nodes.end()) - nodes.begin());
  }
  return 0;
}

}  // namespace

TEST_CASE("the usual order written out changes nothing") {
  const auto a = ask(kFourNodes, ""), b = ask(kFourNodes, kOrders[0]);
  CHECK(a.summary.iteration == b.summary.iteration);
  CHECK(a.graph().digest() == b.graph().digest());
  CHECK(a.scenario().digest == b.scenario().digest);
}

TEST_CASE("groups stand where the order puts them, and cross nodes there") {
  const auto usual = ask(kFourNodes, kOrders[0]), data_first = ask(kFourNodes, kOrders[1]);
  CHECK(nodes_of(usual.graph(), Axis::tensor) == 1);
  CHECK(nodes_of(usual.graph(), Axis::data) == 2);  // 0 4 8 12
  CHECK(nodes_of(data_first.graph(), Axis::data) == 1);
  CHECK(nodes_of(data_first.graph(), Axis::tensor) == 2);
  CHECK(data_first.graph().ranks()[1].place[Axis::data] == 1);
  // Tensor parallelism reduces in every layer: over the NICs it takes longer, and only that differs.
  CHECK(data_first.summary.iteration > usual.summary.iteration);
  // Ranks are GPUs, in every order.
  for (std::size_t r = 0; r < usual.graph().ranks().size(); r++) {
    CHECK(data_first.graph().ranks()[r].job_rank == r);
    CHECK(data_first.graph().ranks()[r].node == r / 8);
  }
}

TEST_CASE("with one node and an NVSwitch in it no order matters") {
  const std::vector<std::string> one = {"batch.global=8", "parallelism={tensor: 2, pipeline: 2, data: 2}"};
  const auto usual = ask(one, kOrders[0]);
  for (const char* order : kOrders) CHECK(ask(one, order).summary.iteration == usual.summary.iteration);
}

TEST_CASE("every rank simulated, or one for all that are alike: the same in every order") {
  const std::vector<std::vector<std::string>> cases = {
      {"batch.global=16", "cluster.nodes=4", "parallelism={tensor: 4, pipeline: 2, data: 4}", "batch.micro=1"},
      {"batch.global=16", "cluster.nodes=2", "parallelism={tensor: 2, pipeline: 4, data: 2}", "batch.micro=1",
       "training.optimizer_sync=post-validation"},
      {"batch.global=16", "cluster.nodes=2", "parallelism={tensor: 2, pipeline: 2, data: 4, zero: 3}", "batch.micro=1"},
      {"batch.global=16", "cluster.nodes=2", "parallelism={pipeline: 4, data: 4, chunks: 2}",
       "schedule=interleaved-1f1b", "batch.micro=1", "framework=megatron-2021"}};
  for (auto sets : cases)
    for (const char* order : kOrders) {
      CAPTURE(order);
      CAPTURE(fmt::format("{}", sets[2]));
      const auto alike = ask(sets, order);
      auto every = sets;
      every.push_back("simulate.symmetry=off");
      const auto whole = ask(every, order);
      CHECK(alike.summary.iteration == whole.summary.iteration);
      CHECK(alike.summary.peak.allocated == whole.summary.peak.allocated);
    }
}
