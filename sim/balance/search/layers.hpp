// The search behind `best`: all layers of a problem, independently.
#pragma once
#include "balance/method.hpp"

namespace rehearsal::balance::search {

// Every layer starts from EPLB's placement (if EPLB has one) and gets an equal share of the steps; steps left over by
// layers that reach their bound go to the others. The problem must meet faults(problem, false).
Plan best(const Problem& problem, const Effort& effort);

// Per layer, a lower bound of max over mean for the policy: the minimum over partitions of groups to nodes of the
// maximum over nodes of cell_bound.
Loads lower_bounds(const Problem& problem);

}  // namespace rehearsal::balance::search
