// Gradients that are reduced under the backward pass: tensor by tensor, in the order in which the backward completes
// them, in buckets that are reduced when full (torch DDP; DeepSpeed's ZeRO-2). A tensor is never split. Gradients are
// known per part, so the buckets that one part fills are issued together, one reduction each.
#pragma once
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "lower/parts.hpp"
#include "plan/plan.hpp"

namespace rehearsal::lower {

class GradientBuckets {
 public:
  // `one_table`: the rank holds both ends of a tied embedding; their gradients are reduced once, with the embedding.
  GradientBuckets(const plan::Plan& plan, const Parts& parts, bool one_table)
      : plan_(plan), parts_(parts), one_table_(one_table) {}

  // Parameters that a part adds to one bucket, and that the bucket holds afterwards. Experts have buckets of their own,
  // because they are replicated over other ranks.
  struct Share {
    double added = 0, bucket = 0;
    bool full = false, experts = false;
  };
  // Gradients of a part that other replicas have too. Of each kind, all shares but the last fill their bucket.
  std::vector<Share> add(const StageParts::Use& use) {
    const double bytes_each = plan::state_bytes(plan_.job.training).gradients;
    std::vector<Share> shares;
    if (table_again(use)) return shares;
    double skipped = one_table_ && parts_.is_head(use) ? plan_.table_parameters() : 0;
    for (auto [tensor, experts] : parts_.parts[use.part].gradients) {
      const double left_out = std::min(skipped, tensor);
      skipped -= left_out, tensor -= left_out;
      const bool alone = plan_.expert_replicas() == 1 && !plan_.job.data_parallel.served();
      if (tensor <= 0 || (experts && alone)) continue;
      auto last = std::find_if(shares.rbegin(), shares.rend(),
                               [experts = experts](const Share& s) { return s.experts == experts; });
      if (last == shares.rend() || last->full) {
        shares.push_back({.experts = experts});
        last = shares.rbegin();
      }
      double& open = open_[experts ? 1 : 0];
      open += tensor;
      last->added += tensor, last->bucket = open;
      last->full = bytes(open * bytes_each) >= plan_.reduced_at_a_time();
      if (last->full) open = 0;
    }
    return shares;
  }
  // Parameters in the last, partly filled bucket; 0 = nothing is left.
  double close(bool experts) { return std::exchange(open_[experts ? 1 : 0], 0); }

 private:
  // Losses of one stage share a table, whose gradient is complete with the first of them, the last in a backward.
  bool table_again(const StageParts::Use& use) const {
    const auto several = [](const plan::Stage& stage) { return stage.losses + (stage.head ? 1 : 0) > 1; };
    if (!parts_.is_head(use) || std::none_of(plan_.stages.begin(), plan_.stages.end(), several)) return false;
    for (const auto& stage : parts_.stages)
      for (const auto& other : stage.uses)
        if (&other == &use) return &use != &stage.uses.front() && parts_.is_head(*(&use - 1));
    return false;
  }

  const plan::Plan& plan_;
  const Parts& parts_;
  bool one_table_;
  std::array<double, 2> open_{};  // parameters in the open bucket of each kind
};

}  // namespace rehearsal::lower
