#include "plan/data_volume.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/state_policy.hpp"

namespace rehearsal::plan {

std::string DataVolume::form() const {
  auto among = experts > 0 ? fmt::format(", experts among {}", expert_replicas) : "";
  if (again > 0) among += fmt::format(", {} of these among {}", again, again_over);
  if (gradients > 1 && zero == 2) return fmt::format("({} + {}) Psi{}", gradients, gathers, among);
  if (microbatches > 1 && zero == 3)
    return fmt::format("{} x {} Psi{}", microbatches, (gradients + gathers) / microbatches, among);
  return fmt::format("{} Psi{}", gradients + gathers, among);
}

DataVolume data_volume(const Plan& plan, std::span<const std::uint32_t> stage_ranks) {
  DataVolume volume;
  const auto& job = plan.job;
  const auto states = state_bytes(job.training);
  volume.replicas = plan.shards(), volume.expert_replicas = plan.expert_replicas();
  volume.microbatches = job.microbatches, volume.zero = plan.zero();
  volume.gradient_bytes = states.gradients, volume.parameter_bytes = plan.gathered_bytes();
  if (job.training.quantised_gathers) volume.parameter_bytes = 1 + 4 / Plan::kQuantisedBlock;
  // A scale for each row or column of a matrix, whichever are more; their shorter side is `hidden` or less.
  if (job.training.quantised_reductions) volume.gradient_bytes = .5 + 4 / double(job.model.hidden);
  const bool at_once = job.training.updates_at_once();  // every rank gets the whole sum
  const auto policy = state_policy(plan);
  const bool each_time = plan.zero() >= 2 && !policy.reduces_last;
  volume.gradients = at_once ? 2 : each_time ? job.microbatches : policy.sums_to_shards ? 1 : 2;
  // A tile is dropped between the recomputation that uses it and its backward.
  const bool thrice = job.training.offload.tiles > 1 && job.training.recompute == models::Recompute::full;
  if (plan.zero() == 3)
    volume.gathers = job.microbatches * (!job.training.reshards() ? 1 : thrice ? 3 : 2);
  else if (plan.zero() > 0)
    volume.gathers = 1;
  using Again = StatePolicy::Again;
  const auto repeated = policy.again == Again::from_copy ? 1 : policy.again == Again::from_parts ? job.microbatches : 0;
  if (repeated > 0)  // a pipeline's forwards may follow each other, and then fewer of them gather from all
    volume.again = volume.gathers - repeated, volume.again_over = plan.gathered_again_over();
  if (policy.sums_to_shards && plan.copies_states()) volume.copies = plan.mesh.size(Axis::copy);
  if (job.training.norms_first()) volume.gradients *= 2, volume.gathers *= 2;  // all passes twice
  for (std::uint32_t rank = 0; rank < job.parallelism.pipeline; rank++) {
    std::vector<std::uint32_t> stages;
    for (std::uint32_t s = 0; s < stage_ranks.size(); s++)
      if (stage_ranks[s] == rank) stages.push_back(s);
    const auto held = plan.held(stages);
    auto here = volume;
    here.parameters = held.all(), here.experts = held.experts;
    if (!plan.learns_all()) {  // frozen parameters are not sent, unless they are sharded
      const double learning = plan.learning(stages).all() / held.all();
      here.gradient_bytes *= learning;
      here.parameter_bytes *= here.zero < 3 ? learning : held.stored().all() / held.all();
    }
    if (here.bytes() > volume.bytes()) volume = here;
  }
  return volume;
}

}  // namespace rehearsal::plan
