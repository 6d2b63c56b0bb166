#include "lower/step_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "models/traffic.hpp"
#include "plan/state_policy.hpp"

namespace rehearsal::lower {

using graph::Lane;
using graph::Pass;

constexpr double kMostPieces = 100'000;

graph::Collective gradient_reduction(const plan::Plan& plan, double parameters, Axis replicas) {
  const double size = parameters * plan::state_bytes(plan.job.training).gradients;
  const bool scatters = plan::state_policy(plan).sums_to_shards;
  return {scatters ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce, bytes(size),
          plan.group(scatters ? plan.shared_along(replicas) : replicas)};
}
graph::Collective sum_of_copies(const plan::Plan& plan, Bytes size, std::uint32_t tensors) {
  return {CollectiveKind::all_reduce, bytes(double(size.count()) / double(plan.shards())), plan.group(Axis::copy),
          tensors};
}

graph::Work copy_to_fused(const plan::Plan& plan, double parameters) {
  return MemoryBound{bytes(2 * parameters * plan::state_bytes(plan.job.training).gradients), 1};
}
graph::Work copy_from_fused(const plan::Plan& plan, double parameters, Axis replicas) {
  const bool own = plan::state_policy(plan).sums_to_shards;
  return copy_to_fused(plan, own ? parameters / double(plan.shards(replicas)) : parameters);
}

namespace {

// Reductions of gradients after the backward: in one piece and in place, or through a buffer.
void reduce(const plan::Plan& plan, double parameters, Axis replicas, std::vector<EndTask>& tasks) {
  const auto add = [&](double some) {
    const auto sum = gradient_reduction(plan, some, replicas);
    const bool scatters = sum.kind == CollectiveKind::reduce_scatter;
    const Axis along = scatters ? plan.shared_along(replicas) : replicas;
    tasks.push_back({sum, Lane::data_comm, Pass::gradient_reduce, along});
    if (along != replicas)
      tasks.push_back({sum_of_copies(plan, sum.size), Lane::data_comm, Pass::gradient_reduce, Axis::copy});
  };
  if (!plan.fuses_gradients()) return add(parameters);
  const double most = double(plan.reduced_at_a_time().count()) / plan::state_bytes(plan.job.training).gradients;
  const double pieces = std::ceil(parameters / most);
  if (pieces > kMostPieces)
    throw UserError(
        fmt::format("training.buffers.size cuts the gradients of a GPU into {:.3g} pieces, and more than {:g} "
                    "are not simulated; make it larger",
                    pieces, kMostPieces));
  for (double left = parameters; left > 0; left -= most) {
    const double some = std::min(left, most);
    tasks.push_back({copy_to_fused(plan, some), Lane::compute, Pass::gradient_reduce});
    add(some);
    tasks.push_back({copy_from_fused(plan, some, replicas), Lane::compute, Pass::gradient_reduce});
  }
}

// What the optimizer runs on whole matrices.
void on_matrices(const plan::Plan& plan, const std::vector<std::uint32_t>& stages, std::vector<EndTask>& tasks) {
  const auto& training = plan.job.training;
  if (!training.optimizer->on_matrices) return;
  const bool shards = plan::state_policy(plan).shards_optimizer;
  models::StepOf step{training, {}, shards ? plan.shards() : 1, shards ? plan.expert_replicas() : 1};
  for (const auto s : stages) {
    const auto& stage = plan.stage(s);
    if (stage.embedding) step.parts.push_back(&plan.network().embedding);
    for (std::int64_t l = 0; l < stage.layers; ++l) step.parts.push_back(&plan.network().layer(stage.first + l));
    if (stage.head || stage.losses > 0) step.parts.push_back(&plan.network().head);
  }
  for (const auto& piece : training.optimizer->on_matrices(step)) {
    EndTask task{{}, Lane::compute, Pass::optimizer, {}, piece.count};
    if (const auto* gemm = std::get_if<Gemm>(&piece.what)) task.work = *gemm;
    if (const auto* kernel = std::get_if<MemoryBound>(&piece.what)) task.work = *kernel;
    if (const auto* exchange = std::get_if<models::StepPiece::Exchange>(&piece.what)) {
      task.work =
          graph::Collective{exchange->kind, exchange->size, plan.group(plan.shared_along(replicas(exchange->experts)))};
      task.lane = Lane::data_comm, task.group = plan.shared_along(replicas(exchange->experts));
    }
    tasks.push_back(std::move(task));
  }
}

}  // namespace

WorkId EndTask::intern(graph::GraphBuilder& works) const {
  const WorkId one = works.intern(work);
  return count == 1 ? one : works.intern(graph::Sequence{{{one, count}}});
}

std::vector<EndTask> step_end(const plan::Plan& plan, const std::vector<std::uint32_t>& stages, bool reduced) {
  std::vector<EndTask> tasks;
  const auto states = plan::state_bytes(plan.job.training);
  const auto held = plan.learning(stages);
  const double shards = double(plan.shards()), expert_replicas = double(plan.expert_replicas());
  const auto policy = plan::state_policy(plan);
  const bool experts = held.experts > 0 && expert_replicas > 1;
  if (!reduced) reduce(plan, held.dense, Axis::data, tasks);
  if (!reduced && experts) reduce(plan, held.experts, Axis::expert_data, tasks);

  // With two copies, the ends that share a table are on one rank, and the data group has summed their gradients.
  const bool end =
      std::any_of(stages.begin(), stages.end(), [&](auto s) { return plan.stage(s).embedding || plan.stage(s).head; });
  if (plan.shares_embedding() && end && !plan.one_table(stages)) {
    const double parts = policy.shards_gradients ? shards : 1;  // each GPU has its own part of the sum
    const Bytes size = bytes(plan.table_parameters() * states.gradients / parts);
    tasks.push_back({graph::Collective{CollectiveKind::all_reduce, size, plan.group(Axis::pipeline)}, Lane::data_comm,
                     Pass::embedding_reduce, Axis::pipeline});
  }

  // Traffic of the update on this rank's shard; ZeRO-1 and 2 also copy between their flat shards and the parameters
  // (6 B each: read and write of fp16 parameters and gradients), which ZeRO-3 never holds whole.
  if (policy.update == plan::StatePolicy::Update::in_backward) return tasks;  // done
  const bool flat = policy.gathers_updated();
  const double own = policy.shards_optimizer ? held.dense / shards + held.experts / expert_replicas : held.all();
  const double moved = models::optimizer_bytes(plan.job.training, plan.job.framework);
  const bool on_host = policy.update == plan::StatePolicy::Update::host;  // which then also unscales gradients
  if (plan.job.training.scales_loss() && plan.job.framework.scaling_bytes > 0 && !on_host)
    tasks.push_back(
        {graph::OptimizerStep{own, bytes(own * plan.job.framework.scaling_bytes)}, Lane::compute, Pass::optimizer});
  if (plan.job.training.skipped) return tasks;
  on_matrices(plan, stages, tasks);
  const double leaves = on_host ? own * plan.job.training.offload.optimizer_fraction : 0, stays = own - leaves;
  if (!on_host || stays > 0)
    tasks.push_back({graph::OptimizerStep{stays, bytes(stays * moved + (flat && !on_host ? 6 * held.all() : 0))},
                     Lane::compute, Pass::optimizer});
  // Masters stay, and what they are in 16 bits goes back to where passes fetch it.
  if (!on_host && policy.parameters != Tier::device)
    tasks.push_back({graph::Copy{bytes(own * states.parameters), Tier::device, policy.parameters},
                     graph::lane_between(Tier::device, policy.parameters), Pass::optimizer});
  if (on_host)
    tasks.push_back({graph::HostStep{leaves, bytes(leaves * plan.job.framework.host_optimizer_bytes)}, Lane::host,
                     Pass::optimizer});
  const auto gather = [&](double parameters, Axis replicas) {
    const Bytes size = bytes(parameters * plan.gathered_bytes());
    const Axis along = plan.shared_along(replicas);
    tasks.push_back({graph::Collective{CollectiveKind::all_gather, size, plan.group(along)}, Lane::data_comm,
                     Pass::parameter_gather, along});
  };
  const bool behind = policy.gather == plan::StatePolicy::Gather::behind_update;
  if (behind) gather(held.dense, Axis::data);
  if (behind && experts) gather(held.experts, Axis::expert_data);
  return tasks;
}

}  // namespace rehearsal::lower
