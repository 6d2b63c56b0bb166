// How the ranks that hold the same parameters share the state of a step - parameters, gradients, optimizer states -
// and when each of them moves: all that follows from the ZeRO level, overlap, offload, parameter servers and the
// optimizer together. Frameworks and native kernels are lowered by it.
#pragma once
#include <cstdint>

#include "base/tier.hpp"

namespace rehearsal::plan {

struct Plan;

struct StatePolicy {
  // Parameters that are shards, or on another tier, between passes: never; all of them after the update; in buckets
  // under the next forward, of which those in a step stand for the ones of the step before; or part by part, before a
  // part computes.
  enum class Gather : std::uint8_t { never, behind_update, under_forward, per_part };
  // Gradients: after the last backward; in buckets under it; or part by part in every micro-batch, to shards or to
  // another tier.
  enum class Reduce : std::uint8_t { at_end, under_backward, per_part };
  enum class Update : std::uint8_t { device, host, server, in_backward };
  // Of `per_part`, what has been gathered before: from all shards again; from the parts that some GPUs keep after a
  // forward (torch's FSDP2, reshard_after_forward: N); or from a second copy, until the update makes it stale (hpZ of
  // ZeRO++, arXiv 2306.10209, section 3.2; DeepSpeed, partition_parameters.py, ds_secondary_tensor).
  enum class Again : std::uint8_t { from_shards, from_parts, from_copy };
  Gather gather = Gather::never;
  Again again = Again::from_shards;
  Reduce reduce = Reduce::at_end;
  Update update = Update::device;

  bool shards_optimizer = false, shards_gradients = false, shards_parameters = false;  // else whole on every replica
  bool sums_to_shards = false;  // reduce-scatter; else all-reduce
  // Of `per_part`: gradients of a stage are whole from its first backward to its last, and reduced behind that one.
  bool reduces_last = false;
  bool gathers_beside = false, reduces_beside = false;  // while other parts compute; else these wait
  std::int64_t prefetch = 0;                            // parts gathered ahead of the one that computes
  Tier optimizer = Tier::device, gradients = Tier::device, parameters = Tier::device;  // between passes

  // Gradients are allocated by the backward that makes them, and gone after the step.
  bool transient_gradients = false;
  // Each update is of shards of parameters that are whole.
  bool gathers_updated() const { return shards_optimizer && !shards_parameters; }
};

StatePolicy state_policy(const Plan& plan);

// Whether gradients may be reduced while passes compute, as the framework does.
bool overlaps_gradients(const Plan& plan);
// Whether passes come part by part, because something is fetched, gathered or leaves around each.
bool passes_in_parts(const Plan& plan);

}  // namespace rehearsal::plan
