// Many list schedules, and repeated perturbation of the best one: finds short schedules quickly, without proof.
#pragma once
#include <cstdint>
#include <vector>

#include "reshard/list_schedule.hpp"
#include "reshard/problem.hpp"

namespace rehearsal::reshard {

class ListSearch {
 public:
  explicit ListSearch(const Problem& problem) : scheduler_(problem), random_(problem.seed) {}

  // Longest first, by each rule; stops when `lower` is met. The first rule is always tried, the others while the total
  // effort (ListScheduler) is below `most`.
  void by_rules(std::int64_t lower, std::int64_t most);
  // Up to `times` attempts; stops when `lower` is met or the total effort reaches `most`.
  void attempt(std::int64_t times, std::int64_t lower, std::int64_t most);
  // Adopts another schedule if it is not longer.
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
