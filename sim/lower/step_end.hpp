// What a pipeline rank of a framework does once its gradients are complete, one after the other: the reduction that did
// not run under the backward, the sum of a tied embedding's two gradients, the optimizer's step, the gather of what
// ZeRO-1 and 2 updated in shards, unless it runs under the next forward (gathered_forward.hpp). The lowering makes
// tasks of it, the estimate adds the times up.
#pragma once
#include <vector>

#include "graph/task_graph.hpp"
#include "plan/plan.hpp"

namespace rehearsal::lower {

struct EndTask {
  enum class Joins : std::uint8_t { nothing, data, expert_data, embedding };  // which group performs it together
  graph::Work work;
  graph::Lane lane;
  graph::Pass pass;
  Joins joins = Joins::nothing;
};

// `stages`: of the rank, ascending. `reduced`: the passes have taken care of the
// gradients.
std::vector<EndTask> step_end(const plan::Plan& plan, const std::vector<std::uint32_t>& stages, bool reduced);

// Gradients that replicas reduce in one piece, in bytes.
graph::Collective gradient_reduction(const plan::Plan& plan, double parameters, bool experts = false);

// Into a fused buffer, which reads and writes each gradient, and back what this GPU needs of the sum (DeepSpeed's
// allreduce_bucket flattens a list of gradients, allreduce_and_copy copies them back: runtime/engine.py).
graph::Work copy_to_fused(const plan::Plan& plan, double parameters);
graph::Work copy_from_fused(const plan::Plan& plan, double parameters, bool experts = false);

}  // namespace rehearsal::lower
