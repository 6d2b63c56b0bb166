// The distribution of tokens over the ranks of an expert group: from the loads of experts, their placement, and what a
// capacity drops.
#pragma once
#include "models/experts.hpp"
#include "plan/plan.hpp"

namespace rehearsal::plan {

models::Routed routing(const Job& job);

}  // namespace rehearsal::plan
