// The interface of placement methods: each file in all/ defines one and registers it.
//
// A method is a pure function of problem and effort: the same on every machine and for any number of threads.
// Effort is counted in steps, not in time.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "balance/placement.hpp"
#include "base/units.hpp"

namespace rehearsal::balance {

struct Effort {
  // Search steps for the whole problem; the search defines a step. A search stops early when it reaches its
  // bound.
  std::int64_t steps = 0;
  unsigned threads = 1;  // layers in parallel; affects only the time
};

// Steps that a current core (assumed; 2.5 GHz, see sim/design/expert-balance.md) performs in this time.
Effort effort_within(Time limit);

struct Plan {
  Placement placement;
  // Per layer: no placement that the policy allows has a smaller max over mean. Filled by methods that prove more than
  // balance::lower_bound (search/bound.hpp), otherwise empty.
  Loads lower_bound;
};

struct Method {
  std::string name, summary;
  bool even = false;      // requires equal slots on every GPU and equal groups on every node
  bool searches = false;  // uses its effort
  std::function<Plan(const Problem& problem, const Effort& effort)> plan;  // throws UserError as check() does
};

}  // namespace rehearsal::balance
