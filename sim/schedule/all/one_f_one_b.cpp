#include "schedule/one_f_one_b.hpp"

#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

// The usual (m+p-1)S plus what synchronous transfers cost: once the pipeline is full, rank 0 and the last rank exchange
// p micro-batches per round trip, and each round trip pays 2(p-1) transfers. Known to hold when p divides m.
std::optional<ClosedForm> closed_form(const Problem& problem) {
  const auto times = uniform_times(Placement::loop, problem);
  if (!times || problem.microbatches % problem.ranks != 0) return std::nullopt;
  const std::int64_t p = problem.ranks, m = problem.microbatches;
  ClosedForm form;
  form.cost = (m + p - 1) * times->combined();
  if (p > 1) form.cost += (2 * (p - 1) * (m / p + 1) - 2) * times->transfer;
  for (std::int64_t rank = 0; rank < p; ++rank) form.in_flight.push_back(double(p - rank));
  return form;
}

}  // namespace

void register_one_f_one_b(Registry& registry) {
  registry.add(
      {.name = "1f1b",
       .summary = "p-1-rank forwards, then one forward and one backward in turn (PipeDream-Flush, Megatron-LM).",
       .any_graph = true,
       .order = one_f_one_b_order,
       .closed_form = closed_form});
}

}  // namespace rehearsal::schedule
