#include "reshard/registry.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "reshard/bounds.hpp"

namespace rehearsal::reshard {

const Registry& registry() {
  static const Registry shelf = [] {
    Registry filled("planner");
    register_planners(filled);
    return filled;
  }();
  return shelf;
}

Plan make_plan(const Planner& planner, const Problem& problem) {
  const Found found = planner.plan(problem);
  check(problem, found.schedule);
  Plan plan{found.schedule, makespan_of(found.schedule), 0};
  plan.lower_bound = std::max(found.lower_bound, bounds(problem, false).best());
  if (!plan.optimal()) plan.lower_bound = std::max(plan.lower_bound, lower_bound(problem));
  INVARIANT(plan.lower_bound <= plan.makespan, "a plan undercuts its lower bound");
  return plan;
}

}  // namespace rehearsal::reshard
