// Tasks shared between senders: the parts of a box come from different replicas.
#pragma once
#include "reshard/problem.hpp"

namespace rehearsal::reshard {

// A schedule of parts that is no longer than `whole`, a schedule of whole tasks. `problem.split` is set.
Found share(const Problem& problem, const std::vector<Sending>& whole);

}  // namespace rehearsal::reshard
