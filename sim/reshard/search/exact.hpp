// The shortest schedule for a few tasks, with proof.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "reshard/problem.hpp"

namespace rehearsal::reshard {

struct ExactResult {
  bool finished = false;  // the search was exhaustive: `schedule`, or the upper bound, is optimal
  std::optional<std::vector<Sending>> schedule;  // the shortest found below the upper bound
};

// Looks for a schedule shorter than `upper`; stops at `lower`. `nodes` bounds the work. Tasks are whole.
ExactResult exact_search(const Problem& problem, std::int64_t upper, std::int64_t lower, std::int64_t nodes);

}  // namespace rehearsal::reshard
