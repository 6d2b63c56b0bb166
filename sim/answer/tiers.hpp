// What is kept on each tier of memory, and whether it fits: on a GPU by itself, of hosts and disks by all GPUs of a node
// together.
#pragma once
#include <optional>
#include <vector>

#include "timeline/memory.hpp"

namespace rehearsal::answer {

struct Question;

struct TierSummary {
  Tier tier = Tier::host;
  double per_gpu = 0;  // bytes at the peak of the GPU that keeps most there
  // Of the fullest node: the peaks of its GPUs, as if all were at the same time. Where ranks do the same they are.
  double per_node = 0;
  timeline::MemoryByCategory at_peak{};  // of that GPU
  std::optional<double> capacity;        // of a node
  std::optional<bool> fits;
};

// Of the tiers beyond the device on which something is kept.
std::vector<TierSummary> tier_summaries(const Question& question, const timeline::Timeline& timeline);

}  // namespace rehearsal::answer
