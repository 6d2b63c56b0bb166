// Zero Bubble schedules made by hand (Zero Bubble, arXiv 2401.10241, section 2): the backward is split, the next rank
// waits only for the input gradient I, and weight gradients W fill the holes of the pipeline's tail.
#include <algorithm>

#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

// Warm-up forwards, then I, W and F in turn. A rank starts its weight gradients late: `lag` of them are kept back for
// the end, where the ranks have to wait for each other's input gradients anyway. Oldest W first.
Order delayed_weights(const Problem& problem, std::uint32_t rank, std::uint32_t warm_up, std::uint32_t lag) {
  const auto stage = static_cast<std::uint16_t>(rank);
  const std::uint32_t m = problem.microbatches;
  std::uint32_t forwards = 0, weights = 0;
  while (forwards < std::min(warm_up, m)) co_yield {forwards++, stage, Op::forward};
  for (std::uint32_t k = 0; k < m; ++k) {
    co_yield {k, stage, Op::input_gradient};
    if (k + 1 - weights > lag) co_yield {weights++, stage, Op::weight_gradient};
    if (forwards < m) co_yield {forwards++, stage, Op::forward};
  }
  while (weights < m) co_yield {weights++, stage, Op::weight_gradient};
}

Order h1_order(const Problem& problem, std::uint32_t rank) {
  return delayed_weights(problem, rank, problem.ranks - rank, rank);
}

// mS + (p-1)(F + I - W + 4C). Holds while W covers a round trip to the neighbour (2C <= W) and is no longer than what
// the next rank does meanwhile (W <= F + 2C), with more micro-batches than ranks.
std::optional<ClosedForm> h1_closed_form(const Problem& problem) {
  const auto times = uniform_times(Placement::loop, problem);
  if (!times || problem.microbatches <= problem.ranks) return std::nullopt;
  const Time f = times->forward, i = times->input_gradient, w = times->weight_gradient, c = times->transfer;
  if (2 * c > w || w > f + 2 * c) return std::nullopt;
  const std::int64_t p = problem.ranks, m = problem.microbatches;
  ClosedForm form;
  form.cost = m * times->split() + (p - 1) * (f + i - w + 4 * c);
  for (std::int64_t rank = 0; rank < p; ++rank) form.in_flight.push_back(double(p - rank));
  return form;
}

Order h2_order(const Problem& problem, std::uint32_t rank) {
  return delayed_weights(problem, rank, 2 * (problem.ranks - rank) - 1, 2 * rank);
}

// mS + (p-1)(F + I - 2W + 2C): twice the warm-up hides half the transfers and another W per rank. Holds while a
// forward covers a weight gradient and a round trip to the neighbour (W + 2C <= F), 2W <= F + I + 2C, and there
// are micro-batches to fill the warm-up of rank 0.
std::optional<ClosedForm> h2_closed_form(const Problem& problem) {
  const auto times = uniform_times(Placement::loop, problem);
  const std::int64_t p = problem.ranks, m = problem.microbatches;
  if (!times || m < 2 * p - 1) return std::nullopt;
  const Time f = times->forward, i = times->input_gradient, w = times->weight_gradient, c = times->transfer;
  if (w + 2 * c > f || 2 * w > f + i + 2 * c) return std::nullopt;
  ClosedForm form;
  form.cost = m * times->split() + (p - 1) * (f + i - 2 * w + 2 * c);
  for (std::int64_t rank = 0; rank < p; ++rank) form.in_flight.push_back(double(2 * (p - rank) - 1));
  return form;
}

}  // namespace

void register_zb(Registry& registry) {
  registry.add({.name = "zb-h1",
                .summary = "1F1B with delayed weight gradients: a third of its bubble when F = I = W, same peak memory "
                           "on rank 0 (Zero Bubble H1, arXiv 2401.10241).",
                .splits_backward = true,
                .order = h1_order,
                .closed_form = h1_closed_form});
  registry.add({.name = "zb-h2",
                .summary =
                    "zb-h1 with twice the warm-up and twice the weight gradients kept back: no bubble when F = I = W, "
                    "up to 2p-1 micro-batches held (Zero Bubble H2, arXiv 2401.10241).",
                .splits_backward = true,
                .order = h2_order,
                .closed_form = h2_closed_form});
}

}  // namespace rehearsal::schedule
