// The search behind `best`: all layers of a problem, each on its own.
#pragma once
#include "balance/method.hpp"

namespace rehearsal::balance::search {

// Every layer starts from EPLB's placement (where EPLB has one) and gets an equal share of the steps; what layers that
// meet their bound leave over goes to the others. The problem must meet faults(problem, false).
Plan best(const Problem& problem, const Effort& effort);

// Per layer, as max over mean: no placement that the policy allows is below. The least over the partitions of groups to
// nodes, of the largest over nodes, of cell_bound.
Loads lower_bounds(const Problem& problem);

}  // namespace rehearsal::balance::search
