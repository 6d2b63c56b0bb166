// Measured memory tiers of a machine, in place of its cluster file's numbers and of the formulas that use them. Copies
// were measured while every rank copied, so their times include contention for host memory; disks were measured by one
// rank and are shared.
#pragma once
#include <optional>

#include "cluster/cluster.hpp"
#include "cost/profile.hpp"
#include "graph/work.hpp"

namespace rehearsal::cost {

// The cluster with the rates that were measured; they are no longer assumed.
cluster::ClusterSpec with_tiers(cluster::ClusterSpec spec, const Profile& profile);

// Seconds; nothing if it was not measured.
std::optional<double> measured_copy(const TierTimes& times, const graph::Copy& copy);
std::optional<double> measured_step(const TierTimes& times, const graph::HostStep& step);

}  // namespace rehearsal::cost
