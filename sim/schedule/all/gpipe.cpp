#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

Order order(const Problem& problem, std::uint32_t rank) {
  const auto stage = static_cast<std::uint16_t>(rank);
  for (std::uint32_t k = 0; k < problem.microbatches; ++k) co_yield {k, stage, Op::forward};
  for (std::uint32_t k = 0; k < problem.microbatches; ++k) co_yield {k, stage, Op::backward};
}

// Each of the two phases fills the pipeline once, p-1 stages and transfers, and nothing stalls after that.
std::optional<ClosedForm> closed_form(const Problem& problem) {
  const auto times = uniform_times(Placement::loop, problem);
  if (!times) return std::nullopt;
  const std::int64_t p = problem.ranks, m = problem.microbatches;
  return ClosedForm{(m + p - 1) * times->combined() + 2 * (p - 1) * times->transfer,
                    std::vector<double>(problem.ranks, double(m))};
}

}  // namespace

void register_gpipe(Registry& registry) {
  registry.add(
      {.name = "gpipe",
       .summary =
           "All forwards, then all backwards in the same order: holds every micro-batch (GPipe, arXiv 1811.06965).",
       .any_graph = true,
       .order = order,
       .closed_form = closed_form});
}

}  // namespace rehearsal::schedule
