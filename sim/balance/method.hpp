// What a way to place experts is: one file in all/ defines one and registers it.
//
// A method is a pure function of the problem and the effort: the same on every machine and for any number of threads.
// Effort is counted, not clocked.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "balance/placement.hpp"
#include "base/units.hpp"

namespace rehearsal::balance {

struct Effort {
  // Steps of search for the whole problem. What one step is, the search says; a search stops early once it has met its
  // bound.
  std::int64_t steps = 0;
  unsigned threads = 1;  // layers at a time; changes nothing but the time
};

// Steps that a core of today (assumed; 2.5 GHz, see sim/design/expert-balance.md) does within this time.
Effort effort_within(Time limit);

struct Plan {
  Placement placement;
  // Per layer: no placement that the policy allows has a smaller max over mean. A method that proves more than
  // balance::lower_bound (search/bound.hpp) fills it; else it is empty.
  Loads lower_bound;
};

struct Method {
  std::string name, summary;
  bool even = false;      // asks for equal slots on every GPU and equal groups on every node
  bool searches = false;  // uses its effort
  std::function<Plan(const Problem& problem, const Effort& effort)> plan;  // throws UserError as check() does
};

}  // namespace rehearsal::balance
