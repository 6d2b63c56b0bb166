// Local search on a complete order: actions move ahead or back in the program of their rank, and worse orders are
// accepted with a probability that falls (simulated annealing). The same seed gives the same order on every machine.
#pragma once
#include <cstdint>
#include <functional>

#include "schedule/search/branch_and_bound.hpp"
#include "schedule/search/orders.hpp"

namespace rehearsal::schedule::search {

struct Annealing {
  std::uint64_t steps = 0;
  std::uint32_t seed = 1;
  Ticks enough = 0;                        // stop when an order costs no more
  std::function<bool()> out_of_time = {};  // asked now and then; empty = never
};

// Starts from `start`, an order of halves within the limit (programs may hold their micro-batches in any order), and
// returns the best order found if it costs less than `known`.
Outcome anneal(const Model& model, const Programs& start, Ticks known, const Annealing& annealing);

}  // namespace rehearsal::schedule::search
