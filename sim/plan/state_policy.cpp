#include "plan/state_policy.hpp"

#include "plan/plan.hpp"

namespace rehearsal::plan {

bool overlaps_gradients(const Plan& plan) {
  const auto& job = plan.job;
  if (plan.fuses_gradients() && job.training.buffers == models::Buffers::growing)
    return false;  // not before it is full
  switch (job.framework.gradient_overlap) {
    case models::GradientOverlap::never:
      return false;
    case models::GradientOverlap::without_pipeline:
      return job.parallelism.pipeline == 1;
    case models::GradientOverlap::always:
      return true;
  }
  return false;
}

StatePolicy state_policy(const Plan& plan) {
  const auto& job = plan.job;
  const auto& training = job.training;
  const int zero = plan.zero();
  const bool served = job.data_parallel.served(), overlaps = overlaps_gradients(plan);
  using Policy = StatePolicy;
  Policy p;
  p.optimizer = training.offload.optimizer, p.gradients = training.offload.gradients,
  p.parameters = training.offload.parameters;
  p.shards_optimizer = zero >= 1, p.shards_gradients = zero >= 2, p.shards_parameters = zero == 3;

  p.update = training.updates_at_once()                                           ? Policy::Update::in_backward
             : p.optimizer != Tier::device                                        ? Policy::Update::host
             : served && job.data_parallel.update == DataParallel::Update::server ? Policy::Update::server
                                                                                  : Policy::Update::device;

  const bool each_time = p.shards_gradients || p.gradients != Tier::device;
  p.reduce = each_time                                     ? Policy::Reduce::per_part
             : overlaps && (plan.replicas() > 1 || served) ? Policy::Reduce::under_backward
                                                           : Policy::Reduce::at_end;
  // With pipelines torch's own sharding sums in whole gradients and reduces once (torch.distributed.pipelining,
  // stage.py, backward_maybe_with_nosync: "accumulate gradients on previous steps and reduce them on the last step").
  // Who fills buckets of his own reduces each micro-batch; DeepSpeed refuses ZeRO-2 there for that.
  p.reduces_last = zero == 2 && job.framework.bucket_parameters == 0 && job.parallelism.pipeline > 1 &&
                   job.microbatches > 1 && !plan.performed() && p.gradients == Tier::device &&
                   p.update == Policy::Update::device;
  p.reduces_beside = overlaps && p.update != Policy::Update::in_backward;
  const bool shards = plan.performed() || job.framework.zero1_reduces == models::Zero1Reduces::shards;
  p.sums_to_shards = p.shards_gradients || (zero == 1 && shards);

  const bool under_forward = zero == 1 && training.overlap_gathers.value_or(job.framework.gather_overlap);
  p.gather = p.shards_parameters || p.parameters != Tier::device ? Policy::Gather::per_part
             : under_forward                                     ? Policy::Gather::under_forward
             : p.gathers_updated()                               ? Policy::Gather::behind_update
                                                                 : Policy::Gather::never;
  if (plan.gathered_again_over() > 0)
    p.again = job.parallelism.secondary_shard > 0 ? Policy::Again::from_copy : Policy::Again::from_parts;
  p.gathers_beside = training.overlap_gathers.value_or(overlaps);
  p.prefetch = p.shards_parameters && p.gathers_beside ? training.gathered_ahead() : 0;
  p.transient_gradients = job.framework.transient_gradients && p.update == Policy::Update::device && !served &&
                          p.gradients == Tier::device && !plan.performed();
  return p;
}

bool passes_in_parts(const Plan& plan) {
  const auto policy = state_policy(plan);
  return policy.reduce == StatePolicy::Reduce::per_part || policy.gather == StatePolicy::Gather::per_part ||
         policy.transient_gradients || plan.keeps_checkpoints_apart() || plan.job.training.share_away(0) > 0;
}

}  // namespace rehearsal::plan
