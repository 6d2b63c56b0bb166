// The proven optimum of small Zero Bubble problems by branch and bound (sim/schedule/search).
#include <fmt/format.h>

#include "base/error.hpp"
#include "schedule/registry.hpp"
#include "schedule/replay.hpp"
#include "schedule/search/beam.hpp"
#include "schedule/search/orders.hpp"
#include "schedule/zb_heuristic.hpp"

namespace rehearsal::schedule {
namespace {

// Where nothing else is asked for: a minute on small problems, a fixed number of steps on large ones, of which few are
// solved, and none beyond kMostActions.
constexpr Time kDefaultLimit = Time(60'000'000'000'000);
constexpr std::uint64_t kSmall = 128 * 3, kMostActions = 6000;
constexpr std::uint64_t kStepsOnLarge = 10'000;
constexpr std::uint64_t kMostBeam = 20'000'000;  // half a second

search::Effort effort(const Problem& problem, const std::function<bool()>& out_of_time) {
  search::Effort effort{.out_of_time = out_of_time};
  const std::uint64_t actions = std::uint64_t(problem.ranks) * problem.microbatches * 3;
  const bool provable = !search::full_backward_is_faster(problem);
  if (!problem.time_limit && (actions > kSmall || !provable)) effort.nodes = kStepsOnLarge;
  return effort;
}

Planned plan(const Problem& problem) {
  const auto out_of_time = search::deadline(problem.time_limit.value_or(kDefaultLimit));
  auto start = zb_heuristic(problem);
  Planned result;
  result.ranks = std::move(start.ranks);
  result.optimal = false;
  search::Ticks cost = start.costs[start.best].count();
  const std::uint64_t actions = std::uint64_t(problem.ranks) * problem.microbatches * 3;
  if (actions > search::kMostBounded) return result;

  const Time bound = search::lower_bound(problem, Placement::loop);
  result.lower_bound = bound;
  result.optimal = cost <= bound.count();
  if (*result.optimal || actions > kMostActions) return result;
  const search::Model model(problem, Placement::loop);
  // Good orders first: what they cost cuts most of the tree.
  for (std::uint32_t width : {1u, 4u, 16u, 64u}) {
    if (cost <= bound.count() || search::beam_work(model, width) > kMostBeam) break;
    const auto better = search::beam_search(model, cost, {width, out_of_time});
    if (better.moves.empty()) continue;
    cost = better.cost;
    result.ranks = search::programs(model, better.moves);
  }
  const auto outcome = search::branch_and_bound(model, cost, effort(problem, out_of_time));
  if (!outcome.moves.empty()) result.ranks = search::programs(model, outcome.moves);
  // A bound over orders of halves says nothing about orders that may use faster full backwards.
  if (!search::full_backward_is_faster(problem)) result.lower_bound = std::max(bound, Time(outcome.lower_bound));
  result.optimal = outcome.cost <= result.lower_bound->count();
  return result;
}

}  // namespace

void register_exact(Registry& registry) {
  registry.add(
      {.name = "exact",
       .summary = "Cheapest order of F, I and W under the memory limit, proven by branch and bound on small problems, "
                  "otherwise the best found in time (Zero Bubble, arXiv 2401.10241, solves an integer program).",
       .splits_backward = true,
       .check =
           [](const Problem& problem) {
             search::check_limit("exact", problem, search::least_limit(problem, Placement::loop));
           },
       .plan = plan});
}

}  // namespace rehearsal::schedule
