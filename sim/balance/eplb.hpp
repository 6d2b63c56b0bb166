// The two steps that DeepSeek's Expert Parallelism Load Balancer (github.com/deepseek-ai/EPLB, commit d52c72d) is made
// of, and what it makes of them; reproduced bit for bit.
//
// All arithmetic is float32, as there. Its one sort is not stable, so that its placements depend on the build of torch
// where loads are equal (and copies of one expert are); here equal loads stay in order, the lowest index first. Loads
// of GPUs are the same either way.
//
// Nothing here throws; a Packer keeps its working memory, so layers of one size cost no allocation after the first.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "balance/placement.hpp"

namespace rehearsal::balance {

// Deals items to packs with room for so many items each: heaviest first, each to the pack with the least load that has
// room. An item's rank is the number of items that were in its pack before it.
class Packer {
 public:
  struct Seat {
    std::uint32_t pack, rank;
  };
  // `room` of all packs together = number of weights. Weights are >= 0.
  void pack(std::span<const float> weights, std::span<const std::uint32_t> room, std::span<Seat> seats);
  // All packs have the same room; with room for one the items stay in order, as EPLB does it.
  void pack_evenly(std::span<const float> weights, std::uint32_t packs, std::span<Seat> seats);

 private:
  void sort(std::span<const float> weights);
  std::vector<std::uint64_t> keys_, spare_, tree_;
  std::vector<std::uint32_t> left_, rooms_;
};

// Makes copies of experts until there are as many as `expert` has places: always of the one whose copies carry most.
// This greedy choice makes the largest copy as small as possible. Copy k is of expert[k] and its rank-th; the first
// ones are the experts themselves, in order. counts[e] = copies.
void replicate(std::span<const float> weights, std::span<std::uint32_t> expert, std::span<std::uint32_t> rank,
               std::span<std::uint32_t> counts, std::vector<std::uint64_t>& tree);

// EPLB's placement. The problem must meet faults(problem, true).
Placement eplb(const Problem& problem);

}  // namespace rehearsal::balance
