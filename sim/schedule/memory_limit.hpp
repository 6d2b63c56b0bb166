// Memory limits of schedules that look at them.
#pragma once
#include <limits>
#include <optional>

namespace rehearsal::schedule {

// How far above a limit a sum of doubles may reach: ten times 0.1 is to fit into 1. Whole numbers below 10^11 stay
// exact.
inline constexpr double kSlack = 1 + 1e-12;
inline double usable(std::optional<double> limit) {
  return limit ? *limit * kSlack : std::numeric_limits<double>::infinity();
}

}  // namespace rehearsal::schedule
