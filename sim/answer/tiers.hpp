// The memory used on each tier, and whether it fits: per GPU on the device, and for hosts and disks all GPUs of a node
// together.
#pragma once
#include <optional>
#include <vector>

#include "timeline/memory.hpp"

namespace rehearsal::answer {

struct LoweredJob;

struct TierSummary {
  Tier tier = Tier::host;
  double per_gpu = 0;  // peak in bytes of the GPU that uses the tier most
  // Of the fullest node: the sum of its GPUs' peaks, as if simultaneous. They are if all ranks do the same.
  double per_node = 0;
  timeline::MemoryByCategory at_peak{};  // on that GPU
  std::optional<double> capacity;        // of a node
  std::optional<bool> fits;
  friend bool operator==(const TierSummary&, const TierSummary&) = default;
};

// The tiers beyond the device that hold anything.
std::vector<TierSummary> tier_summaries(const LoweredJob& lowered, const timeline::Timeline& timeline);

// The share of a step spent computing: simulated; if the rank's work were fully serialised; and, for each state that
// has left the device, by the closed form of ZeRO-Infinity (arXiv 2104.07857, eq. 6), which overlaps nothing. Its
// bandwidth is a GPU's share of links, disks and memory, times the replicas that share a state; the optimizer's
// bandwidth is that of the host's steps.
struct OffloadEfficiency {
  double simulated = 1, together = 1;
  std::optional<double> parameters, optimizer, activations;
  friend bool operator==(const OffloadEfficiency&, const OffloadEfficiency&) = default;
};
// For a rank with this compute time. None if nothing has left the device.
std::optional<OffloadEfficiency> offload_efficiency(const LoweredJob& lowered, RankId rank, Time computes,
                                                    Time iteration);

}  // namespace rehearsal::answer
