// The heart of the problem: some experts, some GPUs with so many slots each; how many copies of every expert, and
// where, so that the heaviest GPU carries as little as possible. A node of a hierarchical placement is one cell, a
// global placement as a whole is one.
//
// Steps count work: one step is about one move tried. All arithmetic is double; equal input gives equal output.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "balance/placement.hpp"

namespace rehearsal::balance::search {

struct Cell {
  Loads weights;                    // of its experts, which are numbered from 0 here
  std::vector<std::uint32_t> room;  // slots per GPU; at least as many together as there are experts

  std::uint32_t experts() const { return static_cast<std::uint32_t>(weights.size()); }
  std::uint32_t gpus() const { return static_cast<std::uint32_t>(room.size()); }
  std::uint32_t slots() const;
  bool even() const;  // all GPUs have the same room
};

// The experts in the slots, GPU after GPU, and the load of the heaviest GPU.
struct Filling {
  std::vector<std::uint32_t> expert;
  double worst = 0;
};

double worst_load(const Cell& cell, const std::vector<std::uint32_t>& expert);

// No filling has a smaller worst load: neither the mean can be undercut, nor the largest copy when every copy is made
// of the expert whose copies are largest (balance/eplb.hpp says why that is the least). O(slots log experts).
double cell_bound(const Cell& cell);

// EPLB's two steps on the cell; GPUs may have different room.
Filling two_steps(const Cell& cell);

// Improves a filling by moves that relieve the heaviest GPU: each time the one that leaves least on the GPUs it
// touches, until none is left or `moves` were made. The worst load never grows. Takes from `steps` what it needs.
// Returns the moves made.
int descend(const Cell& cell, Filling& filling, std::int64_t& steps, int moves = std::numeric_limits<int>::max());

// The optimum of cells with two slots per GPU, where the best places for given copies are known (the heaviest beside
// the lightest): tries every vector of copies that could undercut `filling`. True when it went through within `steps`;
// then nothing is better than `filling`.
bool solve_pairs(const Cell& cell, Filling& filling, std::int64_t& steps);

// Searches on from `filling` by random moves for `steps`, or until `goal` is reached. The same seed gives the same end.
void anneal(const Cell& cell, Filling& filling, double goal, std::int64_t& steps, std::uint64_t seed);

}  // namespace rehearsal::balance::search
