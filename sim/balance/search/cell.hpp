// The core problem: experts, and GPUs with a number of slots each; find the number of copies of every expert, and their
// slots, that minimise the load of the heaviest GPU. A node of a hierarchical placement is one cell, a
// global placement is a single cell.
//
// Effort is counted in steps: one step is about one move tried. All arithmetic is double; the result is deterministic.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "balance/placement.hpp"

namespace rehearsal::balance::search {

struct Cell {
  Loads weights;                    // of its experts, numbered from 0 within the cell
  std::vector<std::uint32_t> room;  // slots per GPU; their sum is at least the number of experts

  std::uint32_t experts() const { return static_cast<std::uint32_t>(weights.size()); }
  std::uint32_t gpus() const { return static_cast<std::uint32_t>(room.size()); }
  std::uint32_t slots() const;
  bool even() const;  // all GPUs have the same room
};

// The experts in the slots, GPU by GPU, and the load of the heaviest GPU.
struct Filling {
  std::vector<std::uint32_t> expert;
  double worst = 0;
};

double worst_load(const Cell& cell, const std::vector<std::uint32_t>& expert);

// A lower bound of the worst load of any filling: the mean, and the largest copy when every additional copy goes to
// the expert with the largest copies (balance/eplb.hpp explains why that is minimal). O(slots log experts).
double cell_bound(const Cell& cell);

// EPLB's two steps on the cell; GPUs may have different room.
Filling two_steps(const Cell& cell);

// Improves a filling by moves that relieve the heaviest GPU: each time the one with the smallest resulting load on the
// GPUs it touches, until none is left or `moves` were made. The worst load never grows. Deducts its effort from
// `steps`. Returns the number of moves made.
int descend(const Cell& cell, Filling& filling, std::int64_t& steps, int moves = std::numeric_limits<int>::max());

// The optimum of cells with two slots per GPU, for which the best slots of given copies are known (the heaviest beside
// the lightest): tries every vector of copies that could beat `filling`. Returns true if it finished within `steps`;
// `filling` is then optimal.
bool solve_pairs(const Cell& cell, Filling& filling, std::int64_t& steps);

// Continues from `filling` with random moves for `steps`, or until `goal` is reached. Deterministic for a given seed.
void anneal(const Cell& cell, Filling& filling, double goal, std::int64_t& steps, std::uint64_t seed);

}  // namespace rehearsal::balance::search
