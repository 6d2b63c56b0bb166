// The time of a plan including latency, chunks and NVLink, which planners ignore.
#pragma once
#include <vector>

#include "reshard/transfers.hpp"

namespace rehearsal::reshard {

// Sendings in order of their planned start, each as soon as its NICs are free. A sender is busy while it sends;
// the NICs of later hosts in a chain are busy later, by the preceding hops, so that the next transfer can start while
// the chain drains. NVLink all-gathers start when the part has arrived and do not wait for each other.
double plan_seconds(const std::vector<Transfer>& transfers, const Numbered& numbered,
                    const std::vector<Sending>& schedule, const Method& method);

// The common number of chunks of all broadcasts that minimises the plan's time; searched on a geometric grid and then
// between neighbours. It is at most the optimum of a single broadcast: a plan pays the latency of every chunk at its
// senders, while its chains drain one behind another.
std::int64_t plan_chunks(const std::vector<Transfer>& transfers, const Numbered& numbered,
                         const std::vector<Sending>& schedule, const Method& method);

}  // namespace rehearsal::reshard
