// The programs of pipeline ranks, joined into a task graph: a rank for each GPU, or for each class of GPUs that nothing
// tells apart; channels between them, groups of them, and the resources of the machine that each of these loads.
#pragma once
#include <optional>
#include <vector>

#include "graph/builder.hpp"
#include "lower/rank_program.hpp"
#include "plan/plan.hpp"

namespace rehearsal::lower {

// `plan`: null for given pipelines, which have one GPU a rank and share nothing. Without `shares` there are no
// surroundings, and with symmetry one rank stands for all of a pipeline rank; with, for those alone that feel the same.
std::optional<Surroundings> join(std::vector<LoweredRank> ranks, const plan::Plan* plan, bool symmetry, bool shares,
                                 graph::GraphBuilder& builder);

}  // namespace rehearsal::lower
