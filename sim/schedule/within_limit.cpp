#include "schedule/within_limit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::schedule {

void require_within_limit(const char* name, Placement placement, const Problem& problem, const Planned& plan) {
  if (!problem.memory_limit) return;
  double most = 0;
  std::uint32_t where = 0;
  for (std::uint32_t rank = 0; rank < plan.ranks.size(); ++rank) {
    double held = 0;
    for (const Action& action : plan.ranks[rank]) {
      INVARIANT(rank_of(placement, problem, action.stage) == rank, "a program holds stages of its own rank");
      const double activation = problem.activation[action.stage], weight_hold = problem.weight_hold[action.stage];
      if (action.op == Op::forward) held += activation;
      if (action.op == Op::input_gradient) held += weight_hold - activation;
      if (action.op == Op::weight_gradient) held -= weight_hold;
      if (action.op == Op::backward) held -= activation;
      if (held > most) most = held, where = rank;
    }
  }
  if (most > *problem.memory_limit)
    throw UserError(
        fmt::format("schedule {}: rank {} holds {}, more than memory_limit {}, and its order is fixed; set "
                    "memory_limit to {}, or choose a schedule that adapts to it (v-adaptive, zb-v)",
                    name, where, most, *problem.memory_limit, most));
}

}  // namespace rehearsal::schedule
