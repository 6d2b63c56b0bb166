#include "lower/step_end.hpp"

#include "models/traffic.hpp"

namespace rehearsal::lower {

using graph::Lane;
using graph::Pass;
using Joins = EndTask::Joins;

graph::Collective gradient_reduction(const plan::Plan& plan, double parameters) {
  const double size = parameters * plan::state_bytes(plan.job.training).gradients;
  return {plan.reduces_to_shards() ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce, bytes(size),
          plan.data_group};
}

std::vector<EndTask> step_end(const plan::Plan& plan, const std::vector<std::uint32_t>& stages, std::uint32_t all,
                              bool reduced) {
  std::vector<EndTask> tasks;
  const auto states = plan::state_bytes(plan.job.training);
  const double parameters = plan.parameters(stages), replicas = double(plan.job.parallelism.data);
  const int zero = plan.zero();
  if (!reduced)
    tasks.push_back({gradient_reduction(plan, parameters), Lane::data_comm, Pass::gradient_reduce, Joins::data});

  const bool first = stages.front() == 0, last = stages.back() + 1 == all;
  if (plan.shares_embedding() && first != last) {
    const double shards = zero >= 2 ? replicas : 1;  // each GPU's own part of the sum
    const Bytes size = bytes(plan.table_parameters() * states.gradients / shards);
    tasks.push_back({graph::Collective{CollectiveKind::all_reduce, size, plan.embedding_group}, Lane::data_comm,
                     Pass::embedding_reduce, Joins::embedding});
  }

  // Traffic of the update on this rank's shard; ZeRO-1 and 2 also copy between their flat shards and the parameters
  // (6 B each: read and write of fp16 parameters and gradients), which ZeRO-3 never holds whole.
  const bool flat = zero >= 1 && zero < 3;
  const double shards = zero >= 1 ? replicas : 1;
  const double moved = plan.job.software.optimizer_bytes + models::unfused_optimizer_bytes(plan.job.training);
  const double traffic = parameters * moved / shards + (flat ? 6 * parameters : 0);
  tasks.push_back({graph::OptimizerStep{parameters / shards, bytes(traffic)}, Lane::compute, Pass::optimizer});
  if (flat)
    tasks.push_back(
        {graph::Collective{CollectiveKind::all_gather, bytes(parameters * states.parameters), plan.data_group},
         Lane::data_comm, Pass::parameter_gather, Joins::data});
  return tasks;
}

}  // namespace rehearsal::lower
