// The programs of pipeline ranks, joined into a task graph: a rank for each GPU, or for each class of GPUs that nothing
// tells apart; channels between them, groups of them, and the resources of the machine that each of these loads.
#pragma once
#include <optional>
#include <vector>

#include "graph/builder.hpp"
#include "lower/rank_program.hpp"
#include "plan/plan.hpp"

namespace rehearsal::lower {

// `plan`: null for given pipelines, which have one GPU a rank and share nothing. Where nothing is shared there are no
// resource_map. With symmetry one rank stands for all that feel the same: all of a pipeline rank where nothing is
// shared and nothing wrong.
std::optional<ResourceMap> join(std::vector<LoweredRank> roles, const StageTransfers& transfers, const plan::Plan* plan,
                                 const Options& options, graph::GraphBuilder& builder);

}  // namespace rehearsal::lower
