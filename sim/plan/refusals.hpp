// Jobs that are refused before they are planned, with the reason and what to change. Rules that name a key of the
// scenario are in rules.hpp.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace rehearsal::plan {

// Each throws UserError.
void refuse_unfit(const Job& job);  // degrees, tokens and offload that break a rule; what has no price; too many bytes
void refuse_step(const Job& job);   // an optimizer, adapters or sharding that do not go with the rest
// Groups of replicas that share states, and hold copies of each other's (HSDP), and other ways for shards to travel.
void refuse_copies(const Job& job);
// Replicas among which gradients that are reduced in two hops go first: those of a node; 1: there is one hop.
std::int64_t replicas_near(const Job& job, const Mesh& mesh);
// Options that native kernels, or their lowering, do not support. `layers`: of each stage.
void refuse_performing(const Job& job, const std::vector<std::int64_t>& layers);

}  // namespace rehearsal::plan
