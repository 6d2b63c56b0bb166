#include "answer/estimate.hpp"

#include <algorithm>

#include "answer/predict.hpp"
#include "answer/staged.hpp"
#include "schedule/replay.hpp"

namespace rehearsal::answer {
namespace {

// One rank, whose last backward begins `backward` before `passes_end`: parts on one lane, reductions on the other.
Time overlapped_end(const lower::Lowering::End& end, const schedule::Problem& problem, Time passes_end,
                    const std::vector<Time>& durations) {
  Time clock = passes_end - problem.time({0, 0, schedule::Op::backward}), reduced = clock;
  for (const auto& part : end.last_backward) {
    clock += durations[part.backward.index()];
    for (const auto reduction : part.reductions) reduced = std::max(reduced, clock) + durations[reduction.index()];
  }
  return std::max(clock, reduced);
}

// The walk of the schedule, then every rank's end of the step. The two ends of a tied embedding meet once on the way.
Time iteration(const scenario::Scenario& scenario, const schedule::Problem& problem, bool blocking,
               const lower::Lowering::End& end, const std::vector<Time>& durations) {
  std::vector<Time> free(problem.ranks);
  schedule::ReplayOptions options;
  options.transfers = blocking ? schedule::Transfers::blocking : schedule::Transfers::free;
  const auto replay = schedule::replay(scenario.schedule.schedule(), problem, options);
  std::copy(replay.end.begin(), replay.end.end(), free.begin());
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

}  // namespace

Estimate estimate(const scenario::Scenario& scenario) {
  if (scenario.concrete && !scenario.optimizer_sync.post_validation && scenario.faults.empty() &&
      scenario.concrete->cluster.groups.empty()) {
    auto staged = stage(scenario);
    if (const auto end = staged.lowering.step_ends(scenario.schedule.schedule(), staged.problem)) {
      const auto durations = staged.cost.price(staged.lowering.works());
      return {iteration(scenario, staged.problem, staged.lowering.blocking_sends(), *end, durations), false};
    }
  }
  return {predict(scenario, {.summary = {.memory = false, .critical_path = false}}).summary.iteration, true};
}

}  // namespace rehearsal::answer
