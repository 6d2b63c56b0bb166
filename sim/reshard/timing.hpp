// How long a plan takes with latency, chunks and NVLink, which planners leave out.
#pragma once
#include <vector>

#include "reshard/transfers.hpp"

namespace rehearsal::reshard {

// Sendings in order of their planned start, each begun as soon as its NICs are free. A sender is held while it sends;
// the NICs of a chain's later hosts are held later, by the hops before them, so that the next transfer can follow while
// the chain drains. All-gathers by NVLink begin when the part has arrived and do not wait for each other.
double plan_seconds(const std::vector<Transfer>& transfers, const Numbered& numbered,
                    const std::vector<Sending>& schedule, const Method& method);

// The one number of chunks for all broadcasts that makes the plan shortest; looked for on a geometric grid and then
// between its neighbours. At most what is best for a broadcast alone: a plan pays the latency of every chunk on its
// senders, while its chains drain behind each other.
std::int64_t plan_chunks(const std::vector<Transfer>& transfers, const Numbered& numbered,
                         const std::vector<Sending>& schedule, const Method& method);

}  // namespace rehearsal::reshard
