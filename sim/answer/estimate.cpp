#include "answer/estimate.hpp"

#include <algorithm>
#include <vector>

#include "answer/simulated.hpp"
#include "schedule/replay_again.hpp"

namespace rehearsal::answer {
namespace {

// The end of a rank whose last backward pass ends at `passes_end`: its parts on one lane, the reductions on the other.
Time overlapped_end(const lower::Lowering::End& end, const schedule::Problem& problem, Time passes_end,
                    const std::vector<Time>& durations) {
  Time clock = passes_end - problem.time({0, 0, schedule::Op::backward}), reduced = clock;
  for (const auto& part : end.last_backward) {
    clock += durations[part.backward.index()];
    for (const auto reduction : part.reductions) reduced = std::max(reduced, clock) + durations[reduction.index()];
  }
  return std::max(clock, reduced);
}

// Adds what every rank does after its passes. The two ends of a tied embedding synchronise once in between.
Time iteration(const schedule::Problem& problem, std::vector<Time> free, const lower::Lowering::End& end,
               const std::vector<Time>& durations) {
  if (!end.last_backward.empty()) free[0] = overlapped_end(end, problem, free[0], durations);

  Time meeting;
  const auto before_meeting = [&](const auto& tasks) {
    return std::find_if(tasks.begin(), tasks.end(), [](const auto& task) { return task.second; });
  };
  for (std::size_t r = 0; r < free.size(); r++) {
    const auto& tasks = end.ranks[r];
    const auto meets = before_meeting(tasks);
    for (auto task = tasks.begin(); task != meets; ++task) free[r] += durations[task->first.index()];
    if (meets != tasks.end()) meeting = std::max(meeting, free[r]);
  }
  Time last;
  for (std::size_t r = 0; r < free.size(); r++) {
    const auto& tasks = end.ranks[r];
    const auto meets = before_meeting(tasks);
    if (meets != tasks.end()) free[r] = meeting;
    for (auto task = meets; task != tasks.end(); ++task) free[r] += durations[task->first.index()];
    last = std::max(last, free[r]);
  }
  return last;
}

// All replicas do the same work, and steps do not overlap.
bool is_regular(const scenario::Scenario& scenario) {
  return scenario.concrete && !scenario.optimizer_sync.post_validation && scenario.faults.empty() &&
         scenario.concrete->cluster.groups.empty();
}

}  // namespace

// A rank's work after its passes starts when its last task has ended or, if that is a message, when it has arrived.
schedule::Replay passes(const scenario::Scenario& scenario, const StageCosts& staged) {
  const auto transfers = staged.lowering.blocking_sends() ? schedule::Transfers::blocking : schedule::Transfers::free;
  auto replay = schedule::replay_again(scenario.schedule.schedule(), staged.problem, transfers);
  for (std::size_t r = 0; r < replay.end.size(); ++r) replay.end[r] = std::max(replay.end[r], replay.sent[r]);
  return replay;
}

namespace {

// With what was interned for the end of the step.
std::vector<Time> prices(const StageCosts& staged) {
  return staged.cost.price(staged.lowering.works(), {}, staged.durations);
}

}  // namespace

std::optional<Time> with_step_ends(const scenario::Scenario& scenario, StageCosts& staged,
                                   const schedule::Replay& passes) {
  if (!is_regular(scenario)) return std::nullopt;
  const auto end = staged.lowering.step_ends(scenario.schedule.schedule(), staged.problem);
  if (!end) return std::nullopt;
  return iteration(staged.problem, passes.end, *end, prices(staged));
}

Estimate estimate(const scenario::Scenario& scenario) {
  if (is_regular(scenario)) {
    auto staged = stage(scenario);
    // Cases that need the graph are known before the walk.
    if (const auto end = staged.lowering.step_ends(scenario.schedule.schedule(), staged.problem))
      return {iteration(staged.problem, passes(scenario, staged).end, *end, prices(staged)), false};
  }
  return {KnownSteps().iteration(scenario), true};
}

}  // namespace rehearsal::answer
