// ZB-V: two chunks per rank on a V, order found from the times (Zero Bubble, arXiv 2401.10241, section 6).
#include <fmt/format.h>

#include "base/error.hpp"
#include "schedule/memory_limit.hpp"
#include "schedule/registry.hpp"
#include "schedule/zb_v_heuristic.hpp"

namespace rehearsal::schedule {
namespace {

void check_limit(const Problem& problem) {
  const double least = zb_v_least_limit(problem);
  if (usable(problem.memory_limit) >= least) return;
  throw UserError(fmt::format(
      "schedule zb-v: memory_limit {} is less than the 2p = {} chunk activations that fill a V; give at least {}",
      *problem.memory_limit, 2 * std::uint64_t(problem.ranks), least));
}

Planned plan(const Problem& problem) {
  Planned result;
  result.ranks = zb_v_heuristic(problem).ranks;
  return result;
}

}  // namespace

void register_zb_v(Registry& registry) {
  registry.add({.name = "zb-v",
                .summary = "Order on a V of two chunks per rank, found from the times under a limit of 2p chunk "
                           "activations or more: no bubble when F = I = W and transfers are free (Zero Bubble, arXiv "
                           "2401.10241, section 6).",
                .placement = Placement::vee,
                .min_chunks = 2,
                .max_chunks = 2,
                .splits_backward = true,
                .check = check_limit,
                .plan = plan});
}

}  // namespace rehearsal::schedule
