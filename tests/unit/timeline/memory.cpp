#include "timeline/memory.hpp"

#include <doctest/doctest.h>

#include "small.hpp"

namespace rehearsal::timeline {
namespace {

using graph::Access;
using graph::BufferUse;
using graph::MemoryCategory;

std::int64_t of(const MemoryByCategory& by, MemoryCategory category) {
  return by[static_cast<std::size_t>(category)].count();
}

struct Step {
  std::vector<BufferUse> uses;
  int workspace = 0, activations = 0;  // at its highest point, against all that it allocates
  Lane lane = Lane::compute;
};

// Buffers 1 and 2 of 10 and 30 bytes; buffer 0, 100 bytes of parameters, lives throughout.
graph::TaskGraph graph_of(const std::vector<Step>& steps) {
  graph::GraphBuilder builder;
  const WorkId work = builder.intern(graph::FixedDelay{});
  graph::ProgramBuilder program("p");
  program.resident({Bytes(100), MemoryCategory::parameters});
  program.buffer({Bytes(10), MemoryCategory::activations});
  program.buffer({Bytes(30), MemoryCategory::gradients});
  for (const Step& step : steps) {
    graph::TaskSpec spec = task(work, step.lane);
    if (step.workspace != 0 || step.activations != 0) {
      graph::FusedTask fold;
      fold.highest[static_cast<std::size_t>(MemoryCategory::workspace)] = Bytes(step.workspace);
      fold.highest[static_cast<std::size_t>(MemoryCategory::activations)] = Bytes(step.activations);
      spec.fold = program.fold(std::move(fold));
    }
    program.add(spec, {}, step.uses);
  }
  builder.add_rank(builder.add(std::move(program).finish()));
  return std::move(builder).finish();
}

BufferUse allocate(std::size_t buffer) { return {BufferId(1 + buffer), Access::allocate}; }
BufferUse release(std::size_t buffer) { return {BufferId(1 + buffer), Access::free}; }

}  // namespace

TEST_CASE("buffers live from the start of one task to the end of another") {
  // [0,5] allocates 10, [5,9] allocates 30, [9,12] frees 10 at its end, [12,20] frees 30.
  const auto graph = graph_of({{{allocate(0)}}, {{allocate(1)}}, {{release(0)}}, {{release(1)}}});
  const Timeline timeline = spans({{0, 5}, {5, 9}, {9, 12}, {12, 20}});
  const MemoryPeak peak = memory_peak(graph, timeline, RankId(0));
  CHECK(peak.peak == Bytes(140));
  CHECK(peak.when == Time(5));
  CHECK(of(peak.at_peak, MemoryCategory::parameters) == 100);
  CHECK(of(peak.at_peak, MemoryCategory::activations) == 10);
  CHECK(of(peak.at_peak, MemoryCategory::gradients) == 30);
  CHECK(of(peak.resident, MemoryCategory::parameters) == 100);
  CHECK(of(peak.resident, MemoryCategory::activations) == 0);

  const auto curve = memory_curve(graph, timeline, RankId(0));
  std::vector<std::pair<std::int64_t, std::int64_t>> points;
  for (const MemoryPoint& point : curve) points.push_back({point.when.count(), point.level.count()});
  CHECK(points ==
        std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 100}, {0, 110}, {5, 140}, {12, 130}, {20, 100}});
}

TEST_CASE("what is freed at an instant makes room for what is allocated then") {
  // [0,5] holds 10 and frees it; [5,8] allocates 30: never 40 at once.
  const auto graph = graph_of({{{allocate(0), release(0)}}, {{allocate(1)}}});
  CHECK(memory_peak(graph, spans({{0, 5}, {5, 8}}), RankId(0)).peak == Bytes(130));
  // Overlapping on two lanes they do meet.
  const auto two_lanes = graph_of({{{allocate(0), release(0)}}, {{allocate(1)}, 0, 0, Lane::tensor_comm}});
  CHECK(memory_peak(two_lanes, spans({{0, 5}, {4, 8}}), RankId(0)).peak == Bytes(140));
}

TEST_CASE("a task without duration allocates and frees in one instant") {
  const auto graph = graph_of({{{allocate(0), release(0)}}, {{allocate(1)}}});
  // Both at 5: 110 first, then 130.
  CHECK(memory_peak(graph, spans({{5, 5}, {5, 6}}), RankId(0)).peak == Bytes(130));
}

TEST_CASE("a task that stands for several is highest inside") {
  // The second task allocates 30 and frees 10; inside 15 more live for a while: 155 instead of the 140 of its buffers.
  const auto graph = graph_of({{{allocate(0)}}, {{allocate(1), release(0)}, 15}});
  const MemoryPeak peak = memory_peak(graph, spans({{0, 5}, {5, 9}}), RankId(0));
  CHECK(peak.peak == Bytes(155));
  CHECK(of(peak.at_peak, MemoryCategory::workspace) == 15);
  CHECK(of(peak.at_peak, MemoryCategory::activations) == 10);
  // By then it has freed 6 of the 10.
  const auto small = graph_of({{{allocate(0)}}, {{allocate(1), release(0)}, 0, -6}});
  const MemoryPeak lower = memory_peak(small, spans({{0, 5}, {5, 9}}), RankId(0));
  CHECK(lower.peak == Bytes(134));
  CHECK(of(lower.at_peak, MemoryCategory::activations) == 4);
}

}  // namespace rehearsal::timeline
