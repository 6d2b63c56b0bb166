// A network as a framework runs it: kernels by shape, fused or not, saved activations, where gradients are accumulated,
// what is recomputed. Equations and sources: models/README.md, sections 2 to 4.
#pragma once
#include "models/block.hpp"
#include "models/experts.hpp"

namespace rehearsal::models {

// `training.recompute` applies to `layers`; `kept` are layers that are not recomputed (Training::recomputes). Embedding
// and head never are.
Network framework_network(const Transformer& model, const Training& training, const Framework& framework,
                          const Shard& shard, const Routed& routing = {});

// The kernel that sums the pieces that a scatter delivered.
inline constexpr std::string_view kSumOfParts = "sum of parts";

}  // namespace rehearsal::models
