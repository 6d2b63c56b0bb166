// The effect of the framework when a scenario names none: the same step with each other candidate.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"

namespace rehearsal::answer {

struct FrameworkTime {
  std::string framework;
  Time iteration;
  bool contention = true;  // false: contention is left out, for graphs above kMostTasks
};

// Up to this size a prediction takes some ten milliseconds; beyond it the walk of the schedule is used (estimate.hpp).
inline constexpr std::uint64_t kMostTasks = 5'000;

// In the order of scenario.other_framework; `tasks`: of the scenario's own graph. Frameworks that cannot run the
// scenario are left out.
std::vector<FrameworkTime> with_other_framework(const scenario::Scenario& scenario, std::uint64_t tasks);

}  // namespace rehearsal::answer
