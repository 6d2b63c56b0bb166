// Lower bounds of all plans, in elements over one NIC.
#pragma once
#include <cstdint>
#include <vector>

#include "reshard/problem.hpp"

namespace rehearsal::reshard {

struct Bounds {
  std::int64_t receiver = 0;    // total that one NIC must receive
  std::int64_t sender = 0;      // total that a set of senders must send, shared evenly (Hall)
  std::int64_t task = 0;        // the longest task
  std::int64_t clique = 0;      // tasks no two of which can run at once
  std::int64_t pigeonhole = 0;  // with q whole tasks for k senders, one sender has ceil(q / k)
  std::int64_t best() const;
};

// `clique` and `pigeonhole` are computed only if `exact_effort` is set, when the cheap ones may not suffice.
Bounds bounds(const Problem& problem, bool exact_effort = true);
std::int64_t lower_bound(const Problem& problem);

// The relevant sets of senders: those of the tasks, unions of two of them, and all together; as bit masks
// in 64-bit words, without repetition. With at most ten senders, every set.
std::vector<std::vector<std::uint64_t>> sender_sets(const Problem& problem);

}  // namespace rehearsal::reshard
