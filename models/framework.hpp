// What frameworks make of a network: kernels by shape, fused or not, what they save, where gradients are added, what is
// repeated. Equations and sources: models/README.md, sections 2 to 4.
#pragma once
#include "models/block.hpp"
#include "models/experts.hpp"

namespace rehearsal::models {

// `training.recompute` applies to `layers`; `kept` are those that are not recomputed (Training::recomputes). The ends
// never are.
Network framework_network(const Transformer& model, const Training& training, const Framework& framework,
                          const Shard& shard, const Routed& routing = {});

// The kernel that adds up what a scatter in pieces delivered.
inline constexpr std::string_view kSumOfParts = "sum of parts";

}  // namespace rehearsal::models
