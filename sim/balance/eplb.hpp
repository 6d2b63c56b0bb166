// The two steps of DeepSeek's Expert Parallelism Load Balancer (github.com/deepseek-ai/EPLB, commit d52c72d), and its
// placement; reproduced bit for bit.
//
// All arithmetic is float32, as in the original. Its one sort is not stable, so its placements depend on the build of
// torch when loads are equal (as those of copies of one expert are); here equal loads stay in order, lowest index
// first. The loads of GPUs are the same either way.
//
// No function throws; a Packer keeps its buffers, so layers of one size allocate nothing after the first.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "balance/placement.hpp"

namespace rehearsal::balance {

// Distributes items to packs of limited room: heaviest first, each to the least loaded pack with free
// room. An item's rank is the number of earlier items in its pack.
class Packer {
 public:
  struct Seat {
    std::uint32_t pack, rank;
  };
  // The total `room` of all packs equals the number of weights. Weights are >= 0.
  void pack(std::span<const float> weights, std::span<const std::uint32_t> room, std::span<Seat> seats);
  // All packs have the same room; with room for one the items stay in order, as EPLB does it.
  void pack_evenly(std::span<const float> weights, std::uint32_t packs, std::span<Seat> seats);

 private:
  void sort(std::span<const float> weights);
  std::vector<std::uint64_t> keys_, spare_, tree_;
  std::vector<std::uint32_t> left_, rooms_;
};

// Replicates experts until all places of `expert` are filled, always the one with the heaviest copies.
// This greedy choice minimises the largest copy. Copy k is the rank[k]-th of expert[k]; the first
// ones are the experts themselves, in order. counts[e] = copies.
void replicate(std::span<const float> weights, std::span<std::uint32_t> expert, std::span<std::uint32_t> rank,
               std::span<std::uint32_t> counts, std::vector<std::uint64_t>& tree);

// EPLB's placement. The problem must meet faults(problem, true).
Placement eplb(const Problem& problem);

}  // namespace rehearsal::balance
