// The quick answer: how long an iteration takes, from the times of the stages and the walk of the schedule, without a
// task graph. Equal to the iteration of `contention: off` to the picosecond, in which ranks take nothing from each
// other: a first look in searches over thousands of layouts, to be followed by a prediction of the best. Where
// something runs beside the passes the graph is built after all.
#pragma once
#include <optional>

#include "answer/stage_costs.hpp"
#include "scenario/scenario.hpp"
#include "schedule/replay.hpp"

namespace rehearsal::answer {

struct Estimate {
  Time iteration;
  bool by_graph = false;  // the quick way could not tell
};
Estimate estimate(const scenario::Scenario& scenario);

// The two halves of the quick way, for searches that share the first among layouts whose stages take the same times:
// the passes in the order of the schedule (each rank's end with the arrival of what it sends last), and the iteration
// with what each rank does behind them, or nothing where only the graph can tell. No graph of the same stages and order
// ends before its passes do.
schedule::Replay passes(const scenario::Scenario& scenario, const StageCosts& staged);
std::optional<Time> with_step_ends(const scenario::Scenario& scenario, StageCosts& staged, const schedule::Replay& passes);

}  // namespace rehearsal::answer
