// The automatic scheduler of ZB-V (Zero Bubble, arXiv 2401.10241, section 6; the `zbv` scheduler of
// sail-sg/zero-bubble-pipeline-parallelism): two chunks per rank in V placement, so that a rank with the first stage
// also has the last one and no rank holds more than the activations of 2p chunks.
//
// Two choices of its greedy rule are open; the four settings are tried. Each one is repeated with the bubbles that it
// ended with as the bubbles that each rank may have, until the largest bubble no longer falls.
#pragma once
#include <array>
#include <cstddef>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

inline constexpr std::size_t kZbVSettings = 4;

struct ZbVHeuristic {
  // Largest bubble of a rank, for (a late weight gradient before the backward of chunk 1 allowed, before a forward
  // allowed) = yes yes, yes no, no yes, no no.
  std::array<Time, kZbVSettings> bubbles;
  std::size_t best = 0;                    // the first of the smallest
  std::vector<std::vector<Action>> ranks;  // its order
};

// `problem` has passed check() for two chunks per rank in V placement, and its limit is at least zb_v_least_limit,
// which is the limit where it gives none. The order's peak never exceeds the limit. O(p m) for each pass.
ZbVHeuristic zb_v_heuristic(const Problem& problem);

// 2p of the largest activation of a chunk.
double zb_v_least_limit(const Problem& problem);

}  // namespace rehearsal::schedule
