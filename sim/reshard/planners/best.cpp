// Our own: list scheduling with restarts until the lower bound is met, else exact search; where neither ends the
// matter, also the other planners, so that the answer is never worse than theirs.
#include <algorithm>

#include "reshard/bounds.hpp"
#include "reshard/list_schedule.hpp"
#include "reshard/registry.hpp"
#include "reshard/search/exact.hpp"
#include "reshard/share.hpp"

namespace rehearsal::reshard {
namespace {

constexpr std::int64_t kSteps = 500'000;                            // tasks placed by restarts
constexpr std::int64_t kFirstNodes = 20'000, kMoreNodes = 400'000;  // of the exact search

class Best {
 public:
  explicit Best(const Problem& problem) : problem_(problem), scheduler_(problem), random_(problem.seed) {}

  Found run() {
    lower_ = bounds(problem_, false).best();
    for (const int rule : {0, 1, 2}) {
      keep(scheduler_.run(rule, 0, random_));
      if (done()) return answer();
    }
    lower_ = std::max(lower_, lower_bound(problem_));
    const auto n = std::int64_t(problem_.tasks.size());
    const std::int64_t restarts = std::clamp<std::int64_t>(kSteps / n, 10, 4000);
    if (restart(std::min<std::int64_t>(restarts, 100)) || exact(kFirstNodes) || restart(restarts) || exact(kMoreNodes))
      return answer();
    for (const char* other : {"load-balance", "greedy", "dfs"})
      if (other != std::string_view("dfs") || n <= 1000) keep(registry().at(other).plan(problem_).schedule);
    return answer();
  }

 private:
  bool done() const { return makespan_ == lower_; }

  void keep(std::vector<Sending> schedule) {
    const auto makespan = makespan_of(schedule);
    if (!schedule_.empty() && makespan >= makespan_) return;
    schedule_ = std::move(schedule), makespan_ = makespan;
  }

  bool restart(std::int64_t times) {
    for (std::int64_t i = 0; i < times && !done(); i++) keep(scheduler_.run(int(i % 3), i % 2 ? 0.3 : 1.0, random_));
    return done();
  }

  bool exact(std::int64_t nodes) {
    if (done()) return true;
    auto result = exact_search(problem_, makespan_, lower_, nodes);
    if (result.schedule) keep(std::move(*result.schedule));
    if (result.finished) lower_ = makespan_;
    return done();
  }

  Found answer() { return {std::move(schedule_), lower_}; }

  const Problem& problem_;
  ListScheduler scheduler_;
  Random random_;
  std::vector<Sending> schedule_;
  std::int64_t makespan_ = 0, lower_ = 0;
};

Found best(const Problem& problem) {
  if (!problem.split) return Best(problem).run();
  Problem whole = problem;
  whole.split = false;
  return share(problem, Best(whole).run().schedule);
}

}  // namespace

void register_best(Registry& registry) {
  registry.add({"best", "List scheduling with restarts up to the lower bound, then exact search: our own.", best});
}

}  // namespace rehearsal::reshard
