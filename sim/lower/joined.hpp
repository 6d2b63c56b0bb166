// Joins the programs of pipeline ranks into a task graph: one rank per GPU, or per class of equivalent GPUs; channels
// between them, groups of them, and the machine's resources that each of these loads.
#pragma once
#include <optional>
#include <vector>

#include "graph/builder.hpp"
#include "lower/rank_program.hpp"
#include "plan/plan.hpp"

namespace rehearsal::lower {

// `plan`: null for given pipelines, which have one GPU per rank and share nothing. Returns no ResourceMap if nothing is
// shared. With symmetry one rank represents all equivalent ones: all replicas of a pipeline rank if nothing is shared
// and nothing is faulty.
std::optional<ResourceMap> join(std::vector<LoweredRank> roles, const StageTransfers& transfers, const plan::Plan* plan,
                                const Options& options, graph::GraphBuilder& builder);

}  // namespace rehearsal::lower
