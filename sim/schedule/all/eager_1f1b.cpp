#include <algorithm>

#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

Order order(const Problem& problem, std::uint32_t rank) {
  const auto stage = static_cast<std::uint16_t>(rank);
  const std::uint32_t m = problem.microbatches, lead = std::min(m, 2 * (problem.ranks - rank) - 1);
  for (std::uint32_t k = 0; k < lead; ++k) co_yield {k, stage, Op::forward};
  for (std::uint32_t k = 0; k < m; ++k) {
    co_yield {k, stage, Op::backward};
    if (k + lead < m) co_yield {k + lead, stage, Op::forward};
  }
}

// A transfer costs only while the pipeline fills and drains: each of the p-1 gaps once per way. Holds when there are
// micro-batches to fill the warm-up (m >= 2p) and a round trip fits under one forward and backward (2C <= S).
std::optional<ClosedForm> closed_form(const Problem& problem) {
  const auto times = uniform_times(Placement::loop, problem);
  const std::int64_t p = problem.ranks, m = problem.microbatches;
  if (!times || m < 2 * p || 2 * times->transfer > times->combined()) return std::nullopt;
  ClosedForm form{.cost = (m + p - 1) * times->combined() + 2 * (p - 1) * times->transfer, .in_flight = {}};
  for (std::int64_t rank = 0; rank < p; ++rank) form.in_flight.push_back(double(2 * (p - rank) - 1));
  return form;
}

}  // namespace

void register_eager_1f1b(Registry& registry) {
  registry.add(
      {.name = "eager-1f1b",
       .summary = "1F1B with 2(p-rank)-1 forwards ahead, which hides transfers and holds more (alpa's overlap-friendly "
                  "1F1B, arXiv 2211.05322).",
       .any_graph = true,
       .order = order,
       .closed_form = closed_form});
}

}  // namespace rehearsal::schedule
