// Many list schedules, and the best one disturbed again and again: finds short schedules fast and proves nothing.
#pragma once
#include <cstdint>
#include <vector>

#include "reshard/list_schedule.hpp"
#include "reshard/problem.hpp"

namespace rehearsal::reshard {

class ListSearch {
 public:
  explicit ListSearch(const Problem& problem) : scheduler_(problem), random_(problem.seed) {}

  // Longest first, by each rule; ends early when `lower` is met. The first rule is always tried, the others while the
  // effort so far (ListScheduler) is below `most`.
  void by_rules(std::int64_t lower, std::int64_t most);
  // Up to `times` attempts; ends early when `lower` is met or all effort so far reaches `most`.
  void attempt(std::int64_t times, std::int64_t lower, std::int64_t most);
  // Takes a schedule from elsewhere, if it is not longer.
  void keep(std::vector<Sending> schedule);

  const std::vector<Sending>& schedule() const { return schedule_; }
  std::int64_t makespan() const { return makespan_; }

 private:
  void disturb(double shake);

  ListScheduler scheduler_;
  Random random_;
  std::vector<Sending> schedule_;
  std::int64_t makespan_ = INT64_MAX;
};

}  // namespace rehearsal::reshard
