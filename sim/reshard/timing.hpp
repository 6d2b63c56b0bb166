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

// The chunks of a broadcast transfer.
std::int64_t chunks_of(const Transfer& transfer, const Method& method);

}  // namespace rehearsal::reshard
