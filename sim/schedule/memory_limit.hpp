// Memory limits of schedules that look at them.
#pragma once
#include <limits>
#include <optional>

namespace rehearsal::schedule {

// The limit as far as a sum of doubles may reach: ten times 0.1 is to fit into 1. Whole numbers below 10^11 stay exact.
inline double usable(std::optional<double> limit) {
  return limit ? *limit * (1 + 1e-12) : std::numeric_limits<double>::infinity();
}

}  // namespace rehearsal::schedule
