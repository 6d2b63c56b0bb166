// Clusters with several kinds of GPUs: every kernel takes the time of its own GPU, and nothing else changes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "answer/predict.hpp"

using namespace rehearsal;

namespace {

answer::Summary ask(const std::string& cluster, const std::string& more = "",
                    const std::string& parallelism = "{tensor: 8, pipeline: 2, data: 2}") {
  const auto text = fmt::format(
      "version: 1\nmodel: {{family: gpt, layers: 16, hidden: 8192, heads: 64, vocabulary: 51200, sequence: 2048}}\n"
      "cluster: {}\nparallelism: {}\nbatch: {{global: 32, micro: 1}}\nframework: megatron-2021\n"
      "training: {{recompute: selective, attention: flash}}\n{}\n",
      cluster, parallelism, more);
  return answer::predict(scenario::load_text(text, "test.yaml")).summary;
}

const std::string kMixed = "{use: dgx-a100-80g, groups: [{nodes: 2}, {nodes: 2, gpu: h100-80g-sxm}]}";

std::string error_of(const std::string& cluster, const std::string& parallelism = "{tensor: 8, pipeline: 2, data: 2}") {
  try {
    ask(cluster, "", parallelism);
  } catch (const UserError& e) {
    return e.diagnostics()[0].message;
  }
  return "";
}

}  // namespace

TEST_CASE("groups of one kind are a cluster of that kind") {
  const auto a100 = ask("{use: dgx-a100-80g, nodes: 4}"),
             h100 = ask("{use: dgx-a100-80g, nodes: 4, gpu: h100-80g-sxm}");
  const auto like_a100 = ask("{use: dgx-a100-80g, groups: [{nodes: 1}, {nodes: 3}]}");
  const auto like_h100 =
      ask("{use: dgx-a100-80g, groups: [{nodes: 1, gpu: h100-80g-sxm}, {nodes: 3, gpu: h100-80g-sxm}]}");
  CHECK(like_a100.iteration == a100.iteration);
  CHECK(like_h100.iteration == h100.iteration);
  CHECK(*like_h100.mfu == doctest::Approx(*h100.mfu));
  CHECK(like_h100.peak.device == h100.peak.device);
}

TEST_CASE("a stage on faster GPUs is busy for less, a replica on faster GPUs waits") {
  const auto slow = ask("{use: dgx-a100-80g, nodes: 4}"),
             fast = ask("{use: dgx-a100-80g, nodes: 4, gpu: h100-80g-sxm}");
  const auto stages = ask(kMixed);  // the second stage on H100
  REQUIRE(stages.ranks.size() == 2);
  // Except for the slowdown of kernels by reductions, which start at other times.
  CHECK(stages.ranks[0].busy / slow.ranks[0].busy == doctest::Approx(1).epsilon(1e-3));
  CHECK(stages.ranks[1].busy / fast.ranks[1].busy == doctest::Approx(1).epsilon(1e-3));
  CHECK(stages.iteration < slow.iteration);
  CHECK(stages.iteration > fast.iteration);
  const auto replicas = ask(kMixed, "placement: [tensor, context, expert, pipeline, data]");
  CHECK(to_seconds(replicas.iteration) > .999 * to_seconds(slow.iteration));
  CHECK(replicas.iteration <= slow.iteration);
}

TEST_CASE("symmetry and detail change nothing") {
  for (const char* placement : {"", "placement: [tensor, context, expert, pipeline, data]"}) {
    const auto asked = [&](const char* simulate) {
      return ask(kMixed, fmt::format("{}\nsimulate: {}", placement, simulate));
    };
    const auto one = asked("{}");
    for (const char* other :
         {"{symmetry: off}", "{detail: layer}", "{detail: operator}", "{detail: layer, symmetry: off}"})
      CHECK(asked(other).iteration == one.iteration);
  }
}

TEST_CASE("memory is that of each GPU") {
  const auto s = ask("{use: dgx-a100-80g, groups: [{nodes: 2}, {nodes: 2, gpu: h200-sxm}]}", "",
                     "{tensor: 4, pipeline: 4, data: 2}");
  CHECK(*s.capacity < 90e9);  // the fullest GPU is one with 80 GB
}

TEST_CASE("impossible input is refused with its rule") {
  CHECK(error_of("{use: dgx-a100-80g, nodes: 3, groups: [{nodes: 2}, {nodes: 2}]}").find("says otherwise") !=
        std::string::npos);
  CHECK(error_of("{use: dgx-a100-80g, groups: []}").find("'groups' must be a list") != std::string::npos);
  CHECK(error_of("{use: dgx-a100-80g, groups: [{nodes: 4, gpu: h300}]}").find("unknown GPU 'h300'") !=
        std::string::npos);
  CHECK(error_of("{use: dgx-a100-80g, groups: [{nodes: 4, gpus: 3}]}").find("unknown key 'gpus'") != std::string::npos);
  CHECK(error_of(kMixed, "{tensor: 32}").find("a tensor group has GPUs of several kinds") != std::string::npos);
}
