// Graph of one iteration of native kernels -> graph of several with optimizer post-validation, in a form that can be
// performed (sim/design/optimizer-sync.md): steps are taken at once, validated in the warm-up of the next iteration
// and, on request, all rolled back and taken again.
#pragma once
#include "graph/task_graph.hpp"
#include "models/optimizer.hpp"

namespace rehearsal::lower {

// `rolled_back`: every step is found bad, so the forwards that ran before its validation run again. The last iteration
// is followed by the validation of its step. Throws UserError if the optimizer's states are sharded.
graph::TaskGraph validated(const graph::TaskGraph& one, const models::Optimizer::TakesBack& kernels,
                           std::uint32_t pipeline, std::uint32_t iterations, bool rolled_back);

}  // namespace rehearsal::lower
