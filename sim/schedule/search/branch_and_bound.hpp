// The proven optimum of small problems: depth first over the partial orders, cut by the bound and by states that an
// earlier state was at least as good as.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "schedule/search/state.hpp"

namespace rehearsal::schedule::search {

struct Effort {
  std::uint64_t nodes = UINT64_MAX;        // partial orders to look at
  std::size_t memory = 512u << 20;         // bytes for remembered states
  std::uint32_t horizon = UINT32_MAX;      // of the bound
  std::function<bool()> out_of_time = {};  // asked every 64 nodes
};

struct Outcome {
  std::vector<Move> moves;  // a complete order better than what was known; empty = none found
  Ticks cost = 0;           // of it, or what was known
  Ticks lower_bound = 0;    // no order costs less
  std::uint64_t nodes = 0;
  bool proven() const { return lower_bound >= cost; }
};

// Looks for an order that costs less than `known`.
Outcome branch_and_bound(const Model& model, Ticks known, const Effort& effort);

}  // namespace rehearsal::schedule::search
