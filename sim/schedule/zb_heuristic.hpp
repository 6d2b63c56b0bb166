// The automatic scheduler of Zero Bubble (arXiv 2401.10241, section 4; the `zb` scheduler of
// sail-sg/zero-bubble-pipeline-parallelism): one chunk per rank, any times and memory per stage, one memory limit.
//
// A greedy rule builds the order round by round, one backward per rank and round, and fills waits with weight gradients
// wherever that does not lengthen the rank with the largest bubble. Three of its choices are open; all eight settings
// are tried and the cheapest is kept, the first one of equals.
#pragma once
#include <array>
#include <cstddef>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

// The settings in the order in which they are tried: each of
//   bubble before the first backward allowed (or not) x backward before an early forward x waits filled even where the
//   rank has bubble to spare,
// yes before no, the last one alternating fastest.
inline constexpr std::size_t kZbSettings = 8;

struct ZbHeuristic {
  std::array<Time, kZbSettings> costs;     // of every setting
  std::size_t best = 0;                    // the first of the cheapest
  std::vector<std::vector<Action>> ranks;  // its order
};

// `problem` has passed check() for one chunk per rank, and its limit is at least zb_least_limit. The order's peak
// never exceeds the limit. O(p m) for each setting.
ZbHeuristic zb_heuristic(const Problem& problem);
// The same with a limit for each rank in the place of the problem's. Each holds one micro-batch at least.
ZbHeuristic zb_heuristic(const Problem& problem, const std::vector<double>& limits);

// The smallest memory limit that holds one micro-batch on every stage.
double zb_least_limit(const Problem& problem);

}  // namespace rehearsal::schedule
