// Gradients that are reduced under the backward pass: tensor by tensor, in the order in which the backward completes
// them, into buckets that are sent off when they are full (torch DDP; DeepSpeed's ZeRO-2). A tensor is never cut.
// Gradients are known part by part, so the buckets that one part fills go out together, one reduction each.
#pragma once
#include <algorithm>
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

  // What a part puts into one bucket, in parameters, and what that bucket then holds.
  struct Share {
    double added = 0, bucket = 0;
    bool full = false;
  };
  // The gradients of a part: all shares but the last fill their bucket.
  std::vector<Share> add(const StageParts::Use& use) {
    const double bytes_each = plan::state_bytes(plan_.job.training).gradients;
    std::vector<Share> shares;
    double skipped = one_table_ && use.part == kHead ? plan_.table_parameters() : 0;
    for (double tensor : parts_.parts[use.part].gradients) {
      const double left_out = std::min(skipped, tensor);
      skipped -= left_out, tensor -= left_out;
      if (tensor <= 0) continue;
      if (shares.empty() || shares.back().full) shares.emplace_back();
      open_ += tensor;
      shares.back().added += tensor, shares.back().bucket = open_;
      shares.back().full = bytes(open_ * bytes_each) >= plan_.job.training.bucket;
      if (shares.back().full) open_ = 0;
    }
    return shares;
  }
  // What the last one holds, in parameters; 0 = nothing is left.
  double close() { return std::exchange(open_, 0); }

 private:
  const plan::Plan& plan_;
  const Parts& parts_;
  bool one_table_;
  double open_ = 0;  // parameters in the open bucket
};

}  // namespace rehearsal::lower
