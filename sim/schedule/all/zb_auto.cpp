// Zero Bubble's automatic schedules (arXiv 2401.10241, section 4): one heuristic, three memory limits.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "schedule/memory_limit.hpp"
#include "schedule/registry.hpp"
#include "schedule/zb_heuristic.hpp"

namespace rehearsal::schedule {
namespace {

void check_limit(const std::string& name, const Problem& problem) {
  const double least = zb_least_limit(problem);
  if (usable(problem.memory_limit) >= least) return;
  throw UserError(fmt::format(
      "schedule {}: memory_limit {} does not hold the activation of one micro-batch on every rank; give at least {}",
      name, *problem.memory_limit, least));
}

// The peers' name of a limit: "1p" holds as many micro-batches as there are ranks, of the larger of the first two
// stages (the first one also embeds). A limit that the problem gives holds as well.
Problem within(Problem problem, double multiple) {
  const double activation = std::max(problem.activation[0], problem.activation[problem.stages() > 1 ? 1 : 0]);
  const double limit = multiple * problem.ranks * activation;
  // No activations, no limit.
  if (limit > 0) problem.memory_limit = std::min(limit, problem.memory_limit.value_or(limit));
  return problem;
}

Planned plan(const Problem& problem) {
  Planned result;
  result.ranks = zb_heuristic(problem).ranks;
  return result;
}

Schedule limited(std::string name, std::string summary, double multiple) {
  Schedule schedule{.name = name, .summary = std::move(summary), .splits_backward = true};
  schedule.check = [name, multiple](const Problem& problem) { check_limit(name, within(problem, multiple)); };
  schedule.plan = [multiple](const Problem& problem) { return plan(within(problem, multiple)); };
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
