// Stretches of a step that do the same to memory again and again are not replayed to their end.
#include "answer/memory_pattern.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <vector>

#include "answer/predict.hpp"
#include "answer/reserved_memory.hpp"

using namespace rehearsal;
using answer::longest_stretch;

TEST_CASE("the longest stretch in which every symbol equals the one a period before it") {
  const auto none = longest_stretch(std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(none.period == 0);
  // Five times 1 2 3 from the second on; 1 1 1 1 1 is a shorter one.
  std::vector<std::uint32_t> symbols{0};
  for (int i = 0; i < 5; i++) symbols.insert(symbols.end(), {1, 2, 3});
  symbols.insert(symbols.end(), {4, 1, 1, 1, 1, 1});
  const auto found = longest_stretch(symbols);
  CHECK(found.begin == 1);
  CHECK(found.end == 16);
  CHECK(found.period == 3);
}

TEST_CASE("what an allocator reserves is the same as in a whole replay") {
  std::size_t repeating = 0;
  for (const char* sets : {"{tensor: 8, pipeline: 8}", "{tensor: 8, pipeline: 1}", "{tensor: 1, pipeline: 4, zero: 1}"})
    for (const bool expandable : {false, true})
      for (const double capacity : {1e15, 60e9, 8e9}) {  // without retries, with some, at every request
        const auto scenario = scenario::load(
            PROJECT_ROOT "/scenarios/gpt3-175b-1024xa100.yaml",
            {fmt::format("parallelism={}", sets), "cluster.nodes=8", "batch.global=256", "model.layers=8"});
        const auto prediction = answer::predict(scenario, answer::Options::time_alone());
        const auto& graph = prediction.graph();
        for (std::size_t r = 0; r < graph.ranks().size(); r++) {
          const answer::CachingAllocator::Options options{Bytes(std::int64_t(capacity)), expandable};
          const auto replay = [&](bool whole) {
            return answer::reserved_memory(graph, prediction.timeline, RankId(r), options, whole);
          };
          CHECK(replay(false) == replay(true));
          const auto changes = timeline::memory_changes(graph, prediction.timeline, RankId(r));
          repeating += answer::MemoryPattern(graph.program_of(graph.ranks()[r]), changes).stretch().period > 0;
        }
      }
  CHECK(repeating > 0);
}
