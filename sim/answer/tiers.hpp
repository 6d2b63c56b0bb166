// What is kept on each tier of memory, and whether it fits: on a GPU by itself, of hosts and disks by all GPUs of a
// node together.
#pragma once
#include <optional>
#include <vector>

#include "timeline/memory.hpp"

namespace rehearsal::answer {

struct LoweredJob;

struct TierSummary {
  Tier tier = Tier::host;
  double per_gpu = 0;  // bytes at the peak of the GPU that keeps most there
  // Of the fullest node: the peaks of its GPUs, as if all were at the same time. Where ranks do the same they are.
  double per_node = 0;
  timeline::MemoryByCategory at_peak{};  // of that GPU
  std::optional<double> capacity;        // of a node
  std::optional<bool> fits;
  friend bool operator==(const TierSummary&, const TierSummary&) = default;
};

// Of the tiers beyond the device on which something is kept.
std::vector<TierSummary> tier_summaries(const LoweredJob& lowered, const timeline::Timeline& timeline);

// What share of a step computes: as it was simulated, if everything that the rank does came one after the other, and for
// each state that has left the device alone by the closed form of ZeRO-Infinity (arXiv 2104.07857, eq. 6), which overlaps
// nothing. There the rate of a GPU's own share of links, disks and memory counts, times the replicas among which a state
// is dealt; the optimizer's is that of the host's steps.
struct OffloadEfficiency {
  double simulated = 1, together = 1;
  std::optional<double> parameters, optimizer, activations;
  friend bool operator==(const OffloadEfficiency&, const OffloadEfficiency&) = default;
};
// Of a rank that computes for so long. None where nothing has left the device.
std::optional<OffloadEfficiency> offload_efficiency(const LoweredJob& lowered, RankId rank, Time computes,
                                                    Time iteration);

}  // namespace rehearsal::answer
