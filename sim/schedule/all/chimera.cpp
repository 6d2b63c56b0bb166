// Chimera (arXiv 2107.06925): two copies of the model, one pipeline down the ranks and one up, whose forwards and
// backwards fit into each other's gaps. The order is that of slots of equal length (one forward or one backward each),
// as the planner of Shigangli/Chimera lays them out.
//
// The down pipeline has stage r on rank r. Its forward of micro-batch k runs there in slot r + 2k, for the p/2
// micro-batches of a unit, and the backward, which turns round at rank p-1, in slot 2p-1-r + 2k. The up pipeline is the
// mirror image: forwards in slot p-1-r + 2k, backwards in slot p+r + 2k. For even p, r and p-1-r differ in parity. So
// the slots r, r+2, ..., r+2p-2 hold p/2 down forwards and then p/2 up backwards, those between them the up forwards
// and the down backwards, and after 2p slots the next unit of p micro-batches follows without a gap.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

// What one rank does in the slots of one parity: forwards of one stage and backwards of the other.
struct Lane {
  std::uint32_t first_slot;
  std::uint16_t forward_stage, backward_stage;

  // The action number n of this lane, if there are that many micro-batches.
  std::optional<Action> at(std::uint64_t n, std::uint32_t ranks, std::uint32_t per_direction) const {
    const std::uint64_t unit = n / ranks, within = n % ranks, half = ranks / 2;
    const bool forward = within < half;
    const std::uint64_t microbatch = unit * half + (forward ? within : within - half);
    if (microbatch >= per_direction) return std::nullopt;
    return Action{static_cast<std::uint32_t>(microbatch), forward ? forward_stage : backward_stage,
                  forward ? Op::forward : Op::backward};
  }
};

Order order(const Problem& problem, std::uint32_t rank) {
  const std::uint32_t p = problem.ranks, per_direction = problem.microbatches / 2;
  const auto down = static_cast<std::uint16_t>(rank), up = static_cast<std::uint16_t>(2 * p - 1 - rank);
  Lane early{rank, down, up}, late{p - 1 - rank, up, down};
  if (late.first_slot < early.first_slot) std::swap(early, late);
  // Lanes take turns from slot to slot: slot n of the late one comes right before slot n + ahead of the early one.
  const std::uint64_t ahead = (late.first_slot - early.first_slot + 1) / 2;
  const std::uint64_t units = (std::uint64_t(per_direction) + p / 2 - 1) / (p / 2), actions = units * p;
  for (std::uint64_t n = 0; n < actions + ahead; ++n) {
    if (n >= ahead)
      if (const auto action = late.at(n - ahead, p, per_direction)) co_yield *action;
    if (n < actions)
      if (const auto action = early.at(n, p, per_direction)) co_yield *action;
  }
}

void check_even(const Problem& problem) {
  if (problem.ranks % 2 == 0) return;
  throw UserError(fmt::format("schedule chimera: its two pipelines need an even number of ranks, not {}; use {}",
                              problem.ranks, problem.ranks + 1));
}

// With u = m/p units. In slots of equal length, and transfers free, p-2 slots stay idle: one where a rank waits for the
// other pipeline, in each of its p-2 gaps before the steady part and after it. Where forwards and backwards differ, the
// gaps have the length of the longer one, and at each seam of two units, where forwards of one meet backwards of the
// other, p-2 slots wait for the difference. Transfers show 3p-5 times in the first unit and 2(p-2) times at each
// further seam (p = 2 has no gaps, and pays for both ways of each unit). Known to hold for whole units, and at seams
// while one transfer is no longer than the difference: equal slots with transfers have no such form.
std::optional<ClosedForm> closed_form(const Problem& problem) {
  const auto times = uniform_times(Placement::bidirectional, problem);
  const std::int64_t p = problem.ranks, m = problem.microbatches, u = m / p;
  if (!times || m % p != 0) return std::nullopt;
  const Time longer = std::max(times->forward, times->backward);
  const Time difference = longer - std::min(times->forward, times->backward), c = times->transfer;
  if (p == 2) return ClosedForm{m * times->combined() + 2 * u * c, {}};
  if (u > 1 && difference < c) return std::nullopt;
  return ClosedForm{
      m * times->combined() + (p - 2) * (longer + (u - 1) * difference) + (3 * p - 5 + 2 * (u - 1) * (p - 2)) * c, {}};
}

}  // namespace

void register_chimera(Registry& registry) {
  registry.add({.name = "chimera",
                .summary = "Two copies of the model in opposite directions: p-2 idle slots if forwards and backwards "
                           "take equally long, parameters twice (Chimera, arXiv 2107.06925).",
                .placement = Placement::bidirectional,
                .min_chunks = 2,
                .max_chunks = 2,
                .check = check_even,
                .order = order,
                .closed_form = closed_form});
}

}  // namespace rehearsal::schedule
