// Floating-point operations that a graph executes: matrix multiplications and attention, recomputation included.
// Counted as the field does for HFU (Megatron 2021, eq. 3): a causal mask is not discounted, so that HFU and MFU can be
// compared.
#pragma once
#include <span>

#include "base/units.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::graph {

Flops flops(const Work& work, std::span<const Work> works);

// Over all tasks and the ranks they stand for.
Flops executed_flops(const TaskGraph& graph);

}  // namespace rehearsal::graph
