// Gradients that are reduced under the backward pass: tensor by tensor, in the order in which the backward completes
// them, into buckets that are sent off when they are full (torch DDP; DeepSpeed's ZeRO-2). A tensor is never cut.
// Gradients are known part by part, so the buckets that one part fills go out together, one reduction each.
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
  // `one_table`: both ends of a tied embedding are of one rank, whose gradients travel once, with the embedding.
  GradientBuckets(const plan::Plan& plan, const Parts& parts, bool one_table)
      : plan_(plan), parts_(parts), one_table_(one_table) {}

  // What a part puts into one bucket, in parameters, and what that bucket then holds. Experts have buckets of their
  // own, as they have replicas of their own.
  struct Share {
    double added = 0, bucket = 0;
    bool full = false, experts = false;
  };
  // The gradients of a part that somebody else has too: of each kind all shares but the last fill their bucket.
  std::vector<Share> add(const StageParts::Use& use) {
    const double bytes_each = plan::state_bytes(plan_.job.training).gradients;
    std::vector<Share> shares;
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
  // What the last one holds, in parameters; 0 = nothing is left.
  double close(bool experts) { return std::exchange(open_[experts ? 1 : 0], 0); }

 private:
  const plan::Plan& plan_;
  const Parts& parts_;
  bool one_table_;
  std::array<double, 2> open_{};  // parameters in the open bucket of each kind
};

}  // namespace rehearsal::lower
