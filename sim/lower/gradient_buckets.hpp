// Gradients that are reduced under the backward pass: collected in the order in which parts complete them, sent off
// when a bucket is full (torch DDP). Buckets that one part fills go out together: gradients are known part by part.
#pragma once
#include <optional>

#include "graph/work.hpp"
#include "lower/parts.hpp"
#include "lower/step_end.hpp"

namespace rehearsal::lower {

class GradientBuckets {
 public:
  // `one_table`: both ends of a tied embedding are of one rank, whose gradients travel once, with the embedding.
  GradientBuckets(const plan::Plan& plan, const Parts& parts, bool one_table)
      : plan_(plan), parts_(parts), one_table_(one_table) {}

  // Adds the gradients of a part; returns the reduction of the bucket that they fill.
  std::optional<graph::Collective> add(const StageParts::Use& use) {
    open_ += parts_.parts[use.part].parameters;
    if (one_table_ && use.part == kHead) open_ -= plan_.table_parameters();
    const double size = open_ * plan::state_bytes(plan_.job.training).gradients;
    return bytes(size) >= plan_.job.training.bucket ? close() : std::nullopt;
  }
  // The last one, if anything is left.
  std::optional<graph::Collective> close() {
    if (open_ <= 0) return std::nullopt;
    const auto reduction = gradient_reduction(plan_, open_);
    open_ = 0;
    return reduction;
  }

 private:
  const plan::Plan& plan_;
  const Parts& parts_;
  bool one_table_;
  double open_ = 0;  // parameters in the open bucket
};

}  // namespace rehearsal::lower
