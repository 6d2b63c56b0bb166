// Zero Bubble's automatic schedules (arXiv 2401.10241, section 4): one heuristic, three memory limits.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "schedule/memory_limit.hpp"
#include "schedule/one_f_one_b.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/zb_heuristic.hpp"

namespace rehearsal::schedule {
namespace {

void check_limit(const std::string& name, const Problem& problem) {
  const double least = zb_least_limit(problem);
  if (usable(problem.memory_limit) >= least) return;
  throw UserError(
      fmt::format("schedule {}: memory_limit {} is too small for the activations of one micro-batch on every rank; "
                  "give at least {}",
                  name, *problem.memory_limit, least));
}

// The memory of each rank under the peers' limit "1p": the micro-batches that 1F1B starts before the first gradient
// comes back, p of them on every rank, of the larger of the first two stages (the first one also embeds). A stage that
// holds more per micro-batch than those (the last one keeps the logits of the loss) may hold that excess for as many as
// 1F1B has in flight there, p - rank: else the limit would not admit 1F1B itself. And if a weight gradient holds more
// than its forward did (recomputed values), one such excess is allowed. A limit that the problem gives holds as well.
std::vector<double> limits(const Problem& problem, double multiple) {
  const std::uint32_t p = problem.ranks;
  const auto& held = problem.activation;
  const double usual = std::max(held[0], held[p > 2 ? 1 : 0]);
  std::vector<double> result;
  for (std::uint32_t rank = 0; rank < p; ++rank) {
    const double limit = multiple * (p * usual + (p - rank) * std::max(0.0, held[rank] - usual)) +
                         std::max(0.0, problem.weight_hold[rank] - held[rank]);
    result.push_back(std::min(limit, problem.memory_limit.value_or(limit)));
  }
  return result;
}

Planned plan(const Problem& problem) {
  Planned result;
  result.ranks = zb_heuristic(problem).ranks;
  return result;
}

std::vector<Action> collect(Order order) {
  std::vector<Action> actions;
  while (order.next()) actions.push_back(order.value());
  return actions;
}

// The heuristic does not always use the memory that it is given, and more memory does not always help. So a larger
// limit also considers the orders found with smaller ones, and all consider 1F1B, the peer that they must beat within
// its memory.
Planned cheapest(const Problem& problem, std::uint32_t multiple) {
  ZbHeuristic best = zb_heuristic(problem, limits(problem, multiple));
  const auto cost = [&] { return best.costs[best.best]; };
  for (std::uint32_t less = multiple - 1; less > 0; --less)
    if (auto found = zb_heuristic(problem, limits(problem, less)); found.costs[found.best] < cost())
      best = std::move(found);
  Planned result;
  const Replay peer = replay({.name = "1f1b", .summary = {}, .order = one_f_one_b_order}, problem);
  const bool fits = std::all_of(peer.peak_memory.begin(), peer.peak_memory.end(),
                                [&](double peak) { return peak <= usable(problem.memory_limit); });
  if (!fits || peer.cost >= cost()) {
    result.ranks = std::move(best.ranks);
    return result;
  }
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank)
    result.ranks.push_back(collect(one_f_one_b_order(problem, rank)));
  return result;
}

Schedule limited(std::string name, std::string summary, std::uint32_t multiple) {
  Schedule schedule{.name = name, .summary = std::move(summary), .splits_backward = true};
  schedule.check = [name](const Problem& problem) { check_limit(name, problem); };
  schedule.plan = [multiple](const Problem& problem) { return cheapest(problem, multiple); };
  return schedule;
}

}  // namespace

void register_zb_auto(Registry& registry) {
  registry.add({.name = "zb-auto",
                .summary =
                    "Order found from the times by Zero Bubble's heuristic under the given memory limit, or none "
                    "(arXiv 2401.10241, section 4).",
                .splits_backward = true,
                .check = [](const Problem& problem) { check_limit("zb-auto", problem); },
                .plan = plan});
  registry.add(limited(
      "zb-1p", "zb-auto with the memory of 1F1B: p micro-batches per rank (Zero Bubble, arXiv 2401.10241).", 1));
  registry.add(limited("zb-2p",
                       "zb-auto with twice the memory of 1F1B, where bubbles nearly vanish (Zero Bubble, arXiv "
                       "2401.10241).",
                       2));
}

}  // namespace rehearsal::schedule
