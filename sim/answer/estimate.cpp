#include "answer/estimate.hpp"

#include <algorithm>

#include "answer/predict.hpp"

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

// Every rank's end of the step behind its passes. The two ends of a tied embedding meet once on the way.
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

// All replicas do the same, and steps follow each other.
bool is_regular(const scenario::Scenario& scenario) {
  return scenario.concrete && !scenario.optimizer_sync.post_validation && scenario.faults.empty() &&
         scenario.concrete->cluster.groups.empty();
}

}  // namespace

schedule::Replay passes(const scenario::Scenario& scenario, const Staged& staged) {
  schedule::ReplayOptions options;
  options.transfers = staged.lowering.blocking_sends() ? schedule::Transfers::blocking : schedule::Transfers::free;
  return schedule::replay(scenario.schedule.schedule(), staged.problem, options);
}

std::optional<Time> with_step_ends(const scenario::Scenario& scenario, Staged& staged, const schedule::Replay& passes) {
  if (!is_regular(scenario)) return std::nullopt;
  const auto end = staged.lowering.step_ends(scenario.schedule.schedule(), staged.problem);
  if (!end) return std::nullopt;
  return iteration(staged.problem, passes.end, *end, staged.cost.price(staged.lowering.works()));
}

Estimate estimate(const scenario::Scenario& scenario) {
  if (is_regular(scenario)) {
    auto staged = stage(scenario);
    // Most of what only the graph can tell is known before the walk.
    if (staged.lowering.step_ends(scenario.schedule.schedule(), staged.problem))
      if (const auto time = with_step_ends(scenario, staged, passes(scenario, staged))) return {*time, false};
  }
  return {predict(scenario, {.summary = {.memory = false, .critical_path = false}}).summary.iteration, true};
}

}  // namespace rehearsal::answer
