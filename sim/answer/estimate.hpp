// The quick answer: how long an iteration takes, from the times of the stages and the walk of the schedule, without a
// task graph. Equal to the simulated iteration to the picosecond where nothing runs beside the passes; otherwise the
// graph is built after all. For searches over thousands of layouts.
#pragma once
#include "scenario/scenario.hpp"

namespace rehearsal::answer {

struct Estimate {
  Time iteration;
  bool by_graph = false;  // the quick way could not tell
};
Estimate estimate(const scenario::Scenario& scenario);

}  // namespace rehearsal::answer
