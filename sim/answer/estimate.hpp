// The quick estimate: the length of an iteration from the stage times and a walk of the schedule, without a task graph.
// Equals the iteration under `contention: off` to the picosecond, so it ignores contention between ranks: a first look
// in searches over thousands of layouts, to be followed by a prediction of the best. The graph is built after all if
// something runs concurrently with the passes.
#pragma once
#include <optional>

#include "answer/stage_costs.hpp"
#include "scenario/scenario.hpp"
#include "schedule/replay.hpp"

namespace rehearsal::answer {

struct Estimate {
  Time iteration;
  bool by_graph = false;  // the walk of the schedule was not enough
};
Estimate estimate(const scenario::Scenario& scenario);

// The two halves of the estimate, for searches in which layouts with equal stage times share the first: the passes in
// the order of the schedule (each rank's end including the arrival of its last message), and the iteration with the
// work of each rank after its passes, or nothing if only the graph can tell. No graph of the same stages and order ends
// before its passes do.
schedule::Replay passes(const scenario::Scenario& scenario, const StageCosts& staged);
std::optional<Time> with_step_ends(const scenario::Scenario& scenario, StageCosts& staged,
                                   const schedule::Replay& passes);

}  // namespace rehearsal::answer
