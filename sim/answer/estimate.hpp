// The quick answer: how long an iteration takes, from the times of the stages and the walk of the schedule, without a
// task graph. Equal to the iteration of `network: closed-form` to the picosecond, in which ranks take nothing from each
// other: a first look in searches over thousands of layouts, to be followed by a prediction of the best. Where
// something runs beside the passes the graph is built after all.
#pragma once
#include "scenario/scenario.hpp"

namespace rehearsal::answer {

struct Estimate {
  Time iteration;
  bool by_graph = false;  // the quick way could not tell
};
Estimate estimate(const scenario::Scenario& scenario);

}  // namespace rehearsal::answer
