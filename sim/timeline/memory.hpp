// Memory over time, derived from buffer lifetimes and spans: allocation at the start of a task, free at its end.
#pragma once
#include <array>
#include <vector>

#include "timeline/timeline.hpp"

namespace rehearsal::timeline {

using MemoryByCategory = std::array<Bytes, graph::kMemoryCategories>;  // indexed by graph::MemoryCategory

struct MemoryPeak {
  Bytes peak;                  // largest sum of live buffers, transients included
  MemoryByCategory at_peak{};  // what it consists of (transients under workspace); sums to `peak`
  Time when;
  MemoryByCategory resident{};  // parameters, gradients, optimizer: live throughout
};

struct MemoryPoint {
  Time when;
  Bytes level;
};

MemoryPeak memory_peak(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank);
// The curve, for pictures and traces: level after every change.
std::vector<MemoryPoint> memory_curve(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank);

}  // namespace rehearsal::timeline
