#include "search/goal.hpp"

#include "answer/whole_run.hpp"

namespace rehearsal::search {

Goal goal_of(const scenario::PlanSpace& space) {
  using Objective = scenario::PlanSpace::Objective;
  constexpr double kDay = 86400;
  Goal goal;
  goal.order = space.objective == Objective::gpus     ? Goal::Order::gpus
               : space.objective == Objective::cost   ? Goal::Order::cost
               : space.objective == Objective::energy ? Goal::Order::energy
                                                      : Goal::Order::time;
  if (space.deadline) goal.deadline_days = space.deadline->value() / kDay;
  if (space.budget) goal.budget = space.budget->value();
  return goal;
}

Runs::Runs(const scenario::PlanFile& file) {
  for (const auto& base : file.bases)
    if (base.scenario.job) paces_.emplace_back(*base.scenario.job, answer::job_step(base.scenario));
}

std::optional<job::Totals> Runs::expected(std::size_t size, double step_seconds, std::int64_t replicas) const {
  if (paces_.empty()) return std::nullopt;
  return paces_[size].expected(step_seconds, replicas);
}

std::optional<job::Totals> Runs::least(std::size_t size, Time iteration) const {
  if (paces_.empty()) return std::nullopt;
  return paces_[size].least(to_seconds(iteration));
}

Key key_of(const Goal& goal, std::int64_t gpus, Time time, const std::optional<job::Totals>& run) {
  Key key{goal.order == Goal::Order::gpus ? gpus : 0, 0, time};
  if (run) key.worth = goal.worth(*run).value_or(0);
  return key;
}

double gap(const Key& value, const Key& bound) {
  if (!(bound < value)) return 0;
  if (bound.gpus != value.gpus) return 1 - double(bound.gpus) / double(value.gpus);
  if (bound.worth != value.worth) return 1 - bound.worth / value.worth;
  return 1 - bound.time / value.time;
}

}  // namespace rehearsal::search
