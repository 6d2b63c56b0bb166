// Memory over time, for any scenario: never negative, always the sum of its categories, and reserved is never less than
// allocated.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "answer/predict.hpp"
#include "answer/reserved_memory.hpp"
#include "timeline/memory.hpp"

using namespace rehearsal;
using namespace rehearsal::answer;

namespace {

using Sets = std::vector<std::string>;

Result run(const Sets& sets) {
  return predict(scenario::load(PROJECT_ROOT "/scenarios/llama3-8b-dgx-h100.yaml", sets));
}

Bytes sum(const timeline::MemoryByCategory& by) {
  Bytes total;
  for (const Bytes size : by) total += size;
  return total;
}

const std::vector<std::string> kLayouts{"{data: 8, zero: 0}",
                                        "{data: 8, zero: 1}",
                                        "{data: 8, zero: 2}",
                                        "{data: 8, zero: 3}",
                                        "{tensor: 4, sequence: true, zero: 3}",
                                        "{tensor: 2, pipeline: 4}",
                                        "{pipeline: 4, zero: 1}",
                                        "{pipeline: 2, chunks: 2, data: 4}"};

}  // namespace

TEST_CASE("categories are never negative and sum to the level") {
  for (const auto& layout : kLayouts)
    for (const char* recompute : {"none", "selective", "full"})
      for (const char* detail : {"stage", "layer"})
        for (const char* framework : {"megatron-2021", "titan-2024", "deepspeed-2021"}) {
          const bool pipeline = layout.find("pipeline") != std::string::npos;
          for (const char* schedule : {"1f1b", "zb-h1"}) {
            if (schedule[0] == 'z' && (!pipeline || layout.find("chunks") != std::string::npos)) continue;
            CAPTURE(layout);
            CAPTURE(recompute);
            CAPTURE(detail);
            CAPTURE(framework);
            CAPTURE(schedule);
            const bool chunks = layout.find("chunks") != std::string::npos;
            const auto r = run({"parallelism=" + layout, "batch={global: 64, micro: 1}",
                                fmt::format("training.recompute={}", recompute),
                                fmt::format("simulate.detail={}", detail), fmt::format("framework={}", framework),
                                fmt::format("schedule={}", chunks ? "interleaved-1f1b" : schedule)});
            const auto& graph = r.graph();
            for (std::size_t rank = 0; rank < graph.ranks().size(); rank++) {
              const auto peak = timeline::memory_peak(graph, r.timeline, RankId(rank));
              bool sound = sum(peak.at_peak) == peak.peak;
              Bytes highest;
              for (const auto& point : timeline::memory_curve(graph, r.timeline, RankId(rank))) {
                sound &= sum(point.live) == point.level;
                for (const Bytes size : point.live) sound &= size >= Bytes{};
                highest = std::max(highest, point.level);
              }
              CHECK(sound);
              CHECK(highest == peak.peak);
              const auto held = reserved_memory(graph, r.timeline, RankId(rank), {});
              CHECK(held.reserved >= held.allocated);
              CHECK(held.retries == 0);  // nothing limits it
            }
          }
        }
}

TEST_CASE("a higher ZeRO stage holds no more states, a smaller device reserves no more than it has") {
  for (const char* precision : {"fp32", "fp16", "bf16"}) {
    Bytes before{std::numeric_limits<std::int64_t>::max()};
    for (int zero = 0; zero <= 3; zero++) {
      CAPTURE(precision);
      CAPTURE(zero);
      const auto r = run({fmt::format("parallelism={{data: 8, zero: {}}}", zero), "batch={global: 8, micro: 1}",
                          fmt::format("training.precision={}", precision)});
      const auto peak = timeline::memory_peak(r.graph(), r.timeline, RankId(0));
      CHECK(sum(peak.resident) <= before);
      before = sum(peak.resident);

      const auto free = reserved_memory(r.graph(), r.timeline, RankId(0), {});
      const Bytes capacity((free.allocated.count() + free.reserved.count()) / 2);
      const auto full = reserved_memory(r.graph(), r.timeline, RankId(0), {capacity});
      CHECK((full.reserved <= capacity) == !full.out_of_memory);
      CHECK((full.retries > 0) == (free.reserved > capacity));
    }
  }
}

// One GPU, one layer's worth of work at a time: coarse tasks and fine ones reserve alike.
TEST_CASE("the detail of the simulation hardly changes what is reserved") {
  for (const char* layout : {"{tensor: 8, sequence: true}", "{tensor: 2, pipeline: 4}"}) {
    double reserved[2];
    for (const int fine : {0, 1}) {
      const auto r = run({fmt::format("parallelism={}", layout), "batch={global: 16, micro: 1}",
                          "training.recompute=full", fmt::format("simulate.detail={}", fine ? "layer" : "stage")});
      double worst = 0;
      for (std::size_t rank = 0; rank < r.graph().ranks().size(); rank++)
        worst = std::max(worst, double(reserved_memory(r.graph(), r.timeline, RankId(rank), {}).reserved.count()));
      reserved[fine] = worst;
    }
    CAPTURE(layout);
    CHECK(reserved[0] == doctest::Approx(reserved[1]).epsilon(.05));
  }
}
