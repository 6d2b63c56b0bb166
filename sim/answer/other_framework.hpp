// What the choice of framework is worth where a scenario names none: the same step with each other that may be meant.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "scenario/scenario.hpp"

namespace rehearsal::answer {

struct FrameworkTime {
  std::string framework;
  Time iteration;
  bool contention = true;  // false: what ranks take from each other is left out, as of graphs above kMostTasks
};

// Below, a prediction takes some ten milliseconds; beyond, the walk of the schedule answers (estimate.hpp).
inline constexpr std::uint64_t kMostTasks = 5'000;

// In the order of scenario.other_framework; `tasks`: of the scenario's own graph. What another framework cannot run is
// left out.
std::vector<FrameworkTime> with_other_framework(const scenario::Scenario& scenario, std::uint64_t tasks);

}  // namespace rehearsal::answer
