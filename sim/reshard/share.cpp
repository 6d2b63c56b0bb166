#include "reshard/share.hpp"

#include <algorithm>
#include <array>

#include "reshard/bounds.hpp"
#include "reshard/search/list_search.hpp"

namespace rehearsal::reshard {
namespace {

constexpr std::int64_t kEffort = 5'000'000, kAttempts = 200;  // of list schedules, per number of parts

// Cuts every task into `parts` parts, as evenly as whole elements allow; `task_of` maps parts to tasks.
Problem cut(const Problem& problem, std::int64_t parts, std::vector<std::uint32_t>& task_of) {
  Problem pieces = problem;
  pieces.tasks.clear();
  task_of.clear();
  for (std::uint32_t t = 0; t < problem.tasks.size(); t++) {
    const Task& task = problem.tasks[t];
    const std::int64_t n = std::min(parts, task.work);
    for (std::int64_t i = 0; i < n; i++) {
      Task piece = task;
      piece.work = task.work / n + (i < task.work % n ? 1 : 0);
      pieces.tasks.push_back(std::move(piece));
      task_of.push_back(t);
    }
  }
  return pieces;
}

// Merges consecutive parts of a task from the same sender into one sending.
std::vector<Sending> joined(std::vector<Sending> parts) {
  std::sort(parts.begin(), parts.end(),
            [](const Sending& a, const Sending& b) { return std::pair(a.task, a.start) < std::pair(b.task, b.start); });
  std::vector<Sending> all;
  for (const auto& part : parts) {
    if (!all.empty() && all.back().task == part.task && all.back().sender == part.sender &&
        all.back().end == part.start)
      all.back().end = part.end;
    else
      all.push_back(part);
  }
  return all;
}

}  // namespace

Found share(const Problem& problem, const std::vector<Sending>& whole) {
  const std::int64_t lower = lower_bound(problem);
  std::vector<Sending> best = whole;
  for (const std::int64_t parts : std::array{2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    if (makespan_of(best) == lower) break;
    std::vector<std::uint32_t> task_of;
    const Problem pieces = cut(problem, parts, task_of);
    ListSearch search(pieces);
    search.by_rules(lower, kEffort);
    search.attempt(kAttempts, lower, kEffort);
    if (search.makespan() >= makespan_of(best)) continue;
    best = search.schedule();
    for (auto& part : best) part.task = task_of[part.task];
  }
  return {joined(std::move(best)), lower};
}

}  // namespace rehearsal::reshard
