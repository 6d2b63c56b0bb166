#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

Order order(const Problem& problem, std::uint32_t rank) {
  const auto stage = static_cast<std::uint16_t>(rank);
  for (std::uint32_t k = 0; k < problem.microbatches; ++k) {
    co_yield {k, stage, Op::forward};
    co_yield {k, stage, Op::backward};
  }
}

// Every micro-batch walks down and up the pipeline alone: p stages of work, 2(p-1) transfers. Rank 0 opens and closes
// it.
std::optional<ClosedForm> closed_form(const Problem& problem) {
  const auto times = uniform_times(Placement::loop, problem);
  if (!times) return std::nullopt;
  const std::int64_t p = problem.ranks, m = problem.microbatches;
  return ClosedForm{m * p * times->combined() + 2 * m * (p - 1) * times->transfer,
                    std::vector<double>(problem.ranks, 1)};
}

}  // namespace

void register_naive(Registry& registry) {
  registry.add({.name = "naive",
                .summary = "One micro-batch in flight: plain model parallelism, the baseline without pipelining.",
                .any_graph = true,
                .order = order,
                .closed_form = closed_form});
}

}  // namespace rehearsal::schedule
