// The graph of one iteration of this program's own kernels -> that of several with optimizer post-validation, as it can
// be performed (sim/design/optimizer-sync.md): steps are taken at once, validated in the warm-up of the next iteration
// and, where that is asked for, all taken back and taken again.
#pragma once
#include "graph/task_graph.hpp"

namespace rehearsal::lower {

// `rolled_back`: every iteration's step is found bad, so the forwards that ran before its validation run again. Behind
// the last iteration comes the validation of its step. Throws UserError where the optimizer's states are sharded.
graph::TaskGraph validated(const graph::TaskGraph& one, std::uint32_t pipeline, std::uint32_t iterations,
                           bool rolled_back);

}  // namespace rehearsal::lower
