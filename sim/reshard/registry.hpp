// All planners by name.
#pragma once
#include <functional>
#include <string>

#include "base/registry.hpp"
#include "reshard/problem.hpp"

namespace rehearsal::reshard {

struct Planner {
  std::string name, summary;
  std::function<Found(const Problem&)> plan;
};

using Registry = PluginRegistry<Planner>;

void register_planners(Registry& registry);  // generated from the file names of planners/
const Registry& registry();

// The planner's plan, checked, with a lower bound: the planner's own proof or `lower_bound`, whichever is higher.
Plan make_plan(const Planner& planner, const Problem& problem);

}  // namespace rehearsal::reshard
