// What a pipeline rank of a framework does once its gradients are complete, in order: the reduction that did not run
// under the backward, the sum of a tied embedding's two gradients, the optimizer step, and the gather of what ZeRO-1
// and 2 updated in shards, unless it runs under the next forward (gathered_forward.hpp). The lowering emits these as
// tasks, the estimate adds up their times.
#pragma once
#include <optional>
#include <vector>

#include "graph/builder.hpp"
#include "graph/task_graph.hpp"
#include "plan/plan.hpp"

namespace rehearsal::lower {

struct EndTask {
  graph::Work work;
  graph::Lane lane;
  graph::Pass pass;
  std::optional<Axis> group = {};  // that performs it (plan::Plan::group)
  std::uint32_t count = 1;         // how often the work is done, back to back
  WorkId intern(graph::GraphBuilder& works) const;
};

// `stages`: those of the rank, ascending. `reduced`: the passes have already reduced the gradients.
std::vector<EndTask> step_end(const plan::Plan& plan, const std::vector<std::uint32_t>& stages, bool reduced);

// All-reduces or reduce-scatters gradients of `parameters` in one piece.
graph::Collective gradient_reduction(const plan::Plan& plan, double parameters, Axis replicas);

// Where groups of shards hold copies: of a sum of `size` that was scattered over one of them, the all-reduce of a
// shard.
graph::Collective sum_of_copies(const plan::Plan& plan, Bytes size, std::uint32_t tensors = 1);

// Into a fused buffer (each gradient is read and written), and back what this GPU needs of the sum (DeepSpeed's
// allreduce_bucket flattens a list of gradients, allreduce_and_copy copies them back: runtime/engine.py).
graph::Work copy_to_fused(const plan::Plan& plan, double parameters);
graph::Work copy_from_fused(const plan::Plan& plan, double parameters, Axis replicas);

}  // namespace rehearsal::lower
