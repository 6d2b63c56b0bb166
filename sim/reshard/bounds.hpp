// What no plan can undercut, in elements over one NIC.
#pragma once
#include <cstdint>
#include <vector>

#include "reshard/problem.hpp"

namespace rehearsal::reshard {

struct Bounds {
  std::int64_t receiver = 0;    // all that one NIC must receive
  std::int64_t sender = 0;      // all that a set of senders must send between them, shared evenly (Hall)
  std::int64_t task = 0;        // the longest task
  std::int64_t clique = 0;      // tasks of which no two can run at once
  std::int64_t pigeonhole = 0;  // of q whole tasks for k senders, some sender gets ceil(q / k)
  std::int64_t best() const;
};

// Of these, `clique` and `pigeonhole` only where the cheap ones might not do: when `exact_effort` is set.
Bounds bounds(const Problem& problem, bool exact_effort = true);
std::int64_t lower_bound(const Problem& problem);

// The sets of senders that are worth looking at: those of the tasks, unions of two of them, and all together; as masks
// of 64-bit words, without repetition. Where there are at most ten senders, every set.
std::vector<std::vector<std::uint64_t>> sender_sets(const Problem& problem);

}  // namespace rehearsal::reshard
