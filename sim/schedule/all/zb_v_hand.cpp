// ZB-V by hand (Controllable Memory, arXiv 2405.15362, and Zero Bubble, arXiv 2401.10241), as written down in
// torch.distributed.pipelining's ScheduleZBVZeroBubble. V placement: the last stage sits on rank 0, so the first
// backward starts where the first forward did, and every rank holds about as much.
#include <algorithm>
#include <array>

#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

// Next micro-batch of each action of a rank. Written for n >= 2p-1 micro-batches; those beyond m are left out.
class Counter {
 public:
  Counter(const Problem& problem, std::uint32_t rank) : problem_(problem), rank_(rank) {}
  Action next(std::uint32_t chunk, Op op) {
    const auto stage = static_cast<std::uint16_t>(stage_of(Placement::vee, problem_, rank_, chunk));
    return {done_[chunk][std::size_t(op)]++, stage, op};
  }
  std::uint32_t done(std::uint32_t chunk, Op op) const { return done_[chunk][std::size_t(op)]; }

 private:
  const Problem& problem_;
  std::uint32_t rank_;
  std::array<std::array<std::uint32_t, 3>, 2> done_{};
};

Order all_orders(const Problem& problem, std::uint32_t rank, std::uint32_t n) {
  constexpr Op F = Op::forward, I = Op::input_gradient, W = Op::weight_gradient;
  const std::uint32_t p = problem.ranks;
  Counter at(problem, rank);
  // Fill: chunk 0 for as long as a micro-batch needs to the turn and back, then both chunks alike.
  for (std::uint32_t k = 0; k < 2 * (p - rank) - 1; ++k) co_yield at.next(0, F);
  for (std::uint32_t k = 0; k < rank; ++k) {
    co_yield at.next(1, F);
    co_yield at.next(0, F);
  }
  for (std::uint32_t k = 0; k < p - rank; ++k) {
    co_yield at.next(1, F);
    co_yield at.next(1, I);
    co_yield at.next(1, W);
  }
  // Steady: one of each.
  while (at.done(1, F) < at.done(0, F) || at.done(0, F) < n) {
    if (at.done(0, F) < n) co_yield at.next(0, F);
    co_yield at.next(0, I);
    co_yield at.next(0, W);
    co_yield at.next(1, F);
    co_yield at.next(1, I);
    co_yield at.next(1, W);
  }
  // Drain: input gradients first where a later rank waits for them.
  for (std::uint32_t k = 0; k < rank; ++k) {
    co_yield at.next(0, I);
    co_yield at.next(1, I);
  }
  for (std::uint32_t k = 0; k < p - rank; ++k) {
    co_yield at.next(0, I);
    co_yield at.next(0, W);
  }
  while (at.done(1, W) < at.done(1, I)) co_yield at.next(1, W);
  while (at.done(0, W) < at.done(0, I)) co_yield at.next(0, W);
}

Order order(const Problem& problem, std::uint32_t rank) {
  Order all = all_orders(problem, rank, std::max(problem.microbatches, 2 * problem.ranks - 1));
  while (all.next())
    if (all.value().microbatch < problem.microbatches) co_yield all.value();
}

// No bubble at all when F = I = W and transfers are free (arXiv 2405.15362); every rank then holds p micro-batches, 2p
// chunks. Where an input gradient is the longest action, each rank after the first waits twice I - W for its neighbour
// in the drain, and each gap is crossed six times with nothing to hide it (the two chunks turn without one): found by
// replay for W <= F <= I, 2C <= W and m >= 2p, and kept by the contract test.
std::optional<ClosedForm> closed_form(const Problem& problem) {
  const auto times = uniform_times(Placement::vee, problem);
  const std::int64_t p = problem.ranks, m = problem.microbatches;
  if (!times || m < 2 * p) return std::nullopt;
  const Time f = times->forward, i = times->input_gradient, w = times->weight_gradient, c = times->transfer;
  ClosedForm form{.cost = 2 * m * times->split(), .in_flight = std::vector<double>(problem.ranks, double(2 * p))};
  if (p == 1) return form;
  if (w > f || f > i || 2 * c > w) return std::nullopt;
  form.cost += 2 * (p - 1) * (i - w) + (6 * p - 8) * c;
  return form;
}

}  // namespace

void register_zb_v_hand(Registry& registry) {
  registry.add({.name = "zb-v-hand",
                .summary =
                    "Two chunks per rank in a V, no bubble when F = I = W, p micro-batches held on every rank (ZB-V by "
                    "hand, arXiv 2405.15362, torch.distributed.pipelining).",
                .placement = Placement::vee,
                .min_chunks = 2,
                .max_chunks = 2,
                .splits_backward = true,
                .order = order,
                .closed_form = closed_form});
}

}  // namespace rehearsal::schedule
