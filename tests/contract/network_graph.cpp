// Graphs of our own kernels: legal for every schedule and layout, without memory leaks.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "answer/predict.hpp"
#include "base/error.hpp"
#include "graph/validate.hpp"
#include "scenario/scenario.hpp"
#include "schedule/registry.hpp"
#include "timeline/breakdown.hpp"
#include "timeline/memory.hpp"

namespace rehearsal {
namespace {

using Sets = std::vector<std::string>;

const std::string kGpt = PROJECT_ROOT "/scenarios/measure/gpt-tiny-pp2-tp2-dp2-this-machine.yaml";
const std::string kMlp = PROJECT_ROOT "/scenarios/measure/mlp-gemm-pipeline-2-ranks.yaml";

// The graph is valid, and every non-resident buffer is freed.
void check_graph(const graph::TaskGraph& graph) {
  REQUIRE_NOTHROW(graph::validate(graph));
  for (const auto& program : graph.programs()) {
    std::size_t born = 0, died = 0;
    for (std::size_t i = 0; i < program.size(); ++i)
      for (const auto& use : program.uses[i]) {
        born += use.how() == graph::Access::allocate;
        died += use.how() == graph::Access::free;
      }
    CHECK(born == program.buffers.size() - program.residents);
    CHECK(died == born);
    CHECK(!program.segments.empty());
  }
}

answer::Result rehearse(const std::string& path, const Sets& sets) {
  auto scenario = scenario::load(path, sets);
  auto rehearsed = answer::predict(scenario);
  check_graph(rehearsed.graph());
  return rehearsed;
}

}  // namespace

TEST_CASE("every layout of a GPT and of an MLP is a legal graph without leaks") {
  for (const std::string& path : {kGpt, kMlp})
    for (int zero : {0, 1, 2, 3})
      for (const char* recompute : {"none", "selective", "full"})
        for (const char* layout : {"{pipeline: 2, tensor: 2, data: 2}", "{pipeline: 1, data: 2}", "{pipeline: 4}",
                                   "{pipeline: 2, chunks: 2, data: 2}"}) {
          CAPTURE(path);
          CAPTURE(zero);
          CAPTURE(recompute);
          CAPTURE(layout);
          const std::string chunks =
              std::string(layout).find("chunks") != std::string::npos ? "interleaved-1f1b" : "1f1b";
          Sets sets{fmt::format("parallelism={}", layout),
                    fmt::format("parallelism.zero={}", zero),
                    fmt::format("training.recompute={}", recompute),
                    "schedule=" + chunks,
                    "simulate.symmetry=off",
                    "batch.global=16",
                    "batch.micro=1",
                    "model.layers=4"};
          rehearse(path, sets);
        }
}

TEST_CASE("every schedule that a run can hold lowers to own kernels") {
  std::size_t lowered = 0;
  for (const std::string& schedule : schedule::registry().names()) {
    CAPTURE(schedule);
    for (const char* chunks : {"1", "2"}) {
      CAPTURE(chunks);
      try {
        rehearse(kGpt, {"parallelism={pipeline: 2, data: 2, chunks: " + std::string(chunks) + "}",
                        "schedule=" + schedule, "batch.global=16", "batch.micro=2"});
        ++lowered;
      } catch (const UserError& error) {
        MESSAGE(std::string(schedule + " x " + chunks + ": " + error.what()));
      }
    }
  }
  CHECK(lowered >= 20);
}

TEST_CASE("asynchronous schedules keep as many versions of the weights as they promise") {
  // PipeDream: rank r keeps p - r versions at once (arXiv 1806.03377, section 3.3), the newest and p-1-r old ones; 2BW
  // two.
  for (const char* name : {"pipedream", "pipedream-2bw"}) {
    CAPTURE(name);
    const auto rehearsed = rehearse(
        kMlp, {"parallelism={pipeline: 4}", "model.layers=4", "batch.global=8", "schedule=" + std::string(name)});
    const auto& graph = rehearsed.graph();
    for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
      const auto& program = graph.program_of(graph.ranks()[r]);
      // One layer per rank: one segment. Versions alive at once, in program order (one compute lane).
      const auto whole = program.buffers[program.segments.at(0).parameters.index()].size;
      std::size_t versions = 0, most = 0;
      for (std::size_t b = 0; b < program.residents; ++b)
        versions += program.buffers[b].category == graph::MemoryCategory::parameters;
      for (std::size_t i = 0; i < program.size(); ++i)
        for (const auto how : {graph::Access::allocate, graph::Access::free})
          for (const auto& use : program.uses[i]) {
            const auto& buffer = program.buffers[use.id().index()];
            if (use.how() != how || buffer.category != graph::MemoryCategory::parameters) continue;
            REQUIRE(buffer.size == whole);
            how == graph::Access::allocate ? ++versions : --versions;
            most = std::max(most, versions);
          }
      CHECK(std::max(most, versions) == (std::string(name) == "pipedream" ? 4 - r : 2));
    }
  }
}

}  // namespace rehearsal
