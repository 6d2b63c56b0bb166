// Memory over time, derived from buffer lifetimes and spans: allocation at the start of a task, free at its end. Each
// tier has a curve of its own.
#pragma once
#include <vector>

#include "timeline/timeline.hpp"

namespace rehearsal::timeline {

using graph::MemoryByCategory, graph::Tier;

struct MemoryPeak {
  Bytes peak;                  // largest sum of live buffers, with what lives within tasks
  MemoryByCategory at_peak{};  // what it consists of; sums to `peak`
  Time when;
  MemoryByCategory resident{};  // parameters, gradients, optimizer: live throughout
};

struct MemoryPoint {
  Time when;
  Bytes level;
  MemoryByCategory live{};  // sums to `level`
};

// When a rank allocates (a task begins) and frees (it ends), in order. At one instant: first the ends of tasks that
// began earlier, then task by task in id order (a topological order) the starts, each with its own end when it takes no
// time. So a buffer freed at t makes room for one allocated at t.
struct MemoryChange {
  Time when;
  bool begins;
  std::uint32_t task;
  bool ends;
  auto operator<=>(const MemoryChange&) const = default;
};
std::vector<MemoryChange> memory_changes(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank);

MemoryPeak memory_peak(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank, Tier tier = Tier::device);
// The curve, for pictures and traces: level after every change.
std::vector<MemoryPoint> memory_curve(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank,
                                      Tier tier = Tier::device);

}  // namespace rehearsal::timeline
