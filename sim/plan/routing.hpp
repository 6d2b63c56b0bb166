// How tokens fall on the ranks of an expert group: from the loads of the experts, where those stand, and what a
// capacity drops.
#pragma once
#include "models/experts.hpp"
#include "plan/plan.hpp"

namespace rehearsal::plan {

models::Routed routing(const Job& job);

}  // namespace rehearsal::plan
