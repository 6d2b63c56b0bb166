// The default planner: list schedules until the lower bound is met, otherwise exact search; if neither proves the
// optimum, also the other planners, so that the result is never worse than theirs.
#include <algorithm>

#include "reshard/bounds.hpp"
#include "reshard/registry.hpp"
#include "reshard/search/exact.hpp"
#include "reshard/search/list_search.hpp"
#include "reshard/share.hpp"

namespace rehearsal::reshard {
namespace {

constexpr std::int64_t kEffort = 20'000'000;  // limit for list schedules
constexpr std::int64_t kFewAttempts = 100, kAttempts = 4000;
constexpr std::int64_t kFirstNodes = 20'000, kMoreNodes = 400'000;  // nodes of the exact search
constexpr std::size_t kMostForOthers = 1000;                        // tasks

Found whole_tasks(const Problem& problem) {
  ListSearch search(problem);
  std::int64_t lower = bounds(problem, false).best();
  search.by_rules(lower, kEffort);
  if (search.makespan() == lower) return {search.schedule(), lower};

  lower = std::max(lower, lower_bound(problem));
  const auto exact = [&](std::int64_t nodes) {
    if (search.makespan() == lower) return;
    const auto result = exact_search(problem, search.makespan(), lower, nodes);
    if (result.schedule) search.keep(*result.schedule);
    if (result.finished) lower = search.makespan();
  };
  search.attempt(kFewAttempts, lower, kEffort);
  exact(kFirstNodes);
  search.attempt(kAttempts, lower, kEffort);
  exact(kMoreNodes);
  // Without proof, never worse than the others (for large problems: than the fast one).
  for (const char* other : {"load-balance", "greedy", "dfs"}) {
    if (search.makespan() == lower) break;
    search.keep(registry().at(other).plan(problem).schedule);
    if (problem.tasks.size() > kMostForOthers) break;
  }
  return {search.schedule(), lower};
}

Found best(const Problem& problem) {
  if (!problem.split) return whole_tasks(problem);
  Problem whole = problem;
  whole.split = false;
  return share(problem, whole_tasks(whole).schedule);
}

}  // namespace

void register_best(Registry& registry) {
  registry.add({"best",
                "List schedules, the best one disturbed until it meets the lower bound, then exact search: our own.",
                best});
}

}  // namespace rehearsal::reshard
