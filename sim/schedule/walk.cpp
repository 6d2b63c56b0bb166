#include "schedule/walk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.hpp"
#include "schedule/text.hpp"

namespace rehearsal::schedule {

Walk::Walk(const Schedule& schedule, const Problem& problem)
    : schedule_(schedule),
      microbatches_(units(schedule, problem)),
      pieces_(pieces(schedule, problem)),
      graph_(schedule, problem),
      places_(problem.stages()),
      cursors_(problem.ranks),
      row_(microbatches_ / 16 + 1),
      progress_(row_ * problem.stages()),
      queue_(problem.ranks) {
  const Placement placement = schedule.placement;
  for (std::uint32_t s = 0; s < places_.size(); ++s) places_[s].rank = schedule::rank_of(placement, problem, s);
  for (std::uint32_t s = 0; s < places_.size(); ++s) {
    const auto own = [&](std::span<const Edge> edges) {
      return pieces_ > 1 || !std::all_of(edges.begin(), edges.end(), [&](const Edge& e) { return crosses(e); });
    };
    places_[s].forward_needs_own = own(graph_.into(s)), places_[s].gradient_needs_own = own(graph_.out_of(s));
  }
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) cursors_[rank].program = schedule.order(problem, rank);
}

std::string Walk::where(std::uint32_t rank) const {
  const Cursor& cursor = cursors_[rank];
  return fmt::format("schedule {}: rank {}, cell {} ({})", schedule_.name, rank, cursor.cell,
                     to_text(cursor.program.value()));
}

void Walk::illegal(std::uint32_t rank) const {
  const Action action = cursors_[rank].program.value();
  const std::uint32_t stages = std::uint32_t(places_.size()), stage = action.stage, k = action.microbatch;
  const auto fail = [&](const std::string& why) { throw UserError(where(rank) + ": " + why); };
  const auto text = [&](std::uint32_t s, Op op) { return to_text({k, static_cast<std::uint16_t>(s), op}); };
  if (stage >= stages) fail(fmt::format("there is no stage {}; the last one is {}", stage, stages - 1));
  if (k >= microbatches_) fail(fmt::format("there is no micro-batch {}; the last one is {}", k, microbatches_ - 1));
  if (places_[stage].rank != rank) fail(fmt::format("stage {} is on rank {}", stage, places_[stage].rank));

  const Progress now = progress(stage, k);
  const bool forward = action.op == Op::forward, weight = action.op == Op::weight_gradient;
  if (forward && now != kNothing) fail("this forward is already done");
  if (weight && now == kDone) fail("this weight gradient is already done");
  if (weight && now != kInputGradient) fail("runs before its input gradient " + text(stage, Op::input_gradient));
  if (!forward && !weight && now >= kInputGradient) fail("this gradient is already done");
  if (!forward && !weight && now == kNothing) fail("runs before its forward " + text(stage, Op::forward));
  if (pieces_ > 1 && !pieces_in_order(action))
    fail(forward ? "runs before the forward of the previous piece" : "runs before the gradient of the next piece");
  const auto other = missing(action, false);
  INVARIANT(other, "a legal action was refused");
  if (forward) fail(fmt::format("runs before {} on the same rank", text(*other, Op::forward)));
  throw UserError(fmt::format("{}: runs before the gradient of stage {} on the same rank", where(rank), *other));
}

void Walk::unpaired(std::uint32_t rank, const Action* second) const {
  throw UserError(fmt::format(
      "schedule {}: rank {}, cell {}: {} is marked to overlap with {}; only a forward followed by one backward can",
      schedule_.name, rank, cursors_[rank].cell, to_text(cursors_[rank].first),
      second ? to_text(*second) : "the end of the program"));
}

void Walk::finish() const {
  // A list of every rank of a large pipeline is no help: the first few show the cycle.
  constexpr std::size_t kShown = 8;
  std::size_t waiting = 0;
  std::string heads;
  for (std::uint32_t rank = 0; rank < cursors_.size(); ++rank) {
    const Cursor& cursor = cursors_[rank];
    if (cursor.ended) continue;
    if (++waiting > kShown) continue;
    Action head = cursor.program.value();
    // Of a pair that waits, name a half whose input another rank has not even produced.
    if (cursor.paired && missing(cursor.first, true)) head = cursor.first;
    const bool forward = head.op == Op::forward;
    const auto needed = forward ? graph_.into(head.stage) : graph_.out_of(head.stage);
    INVARIANT(missing(head, true) || !needed.empty(), "who waits misses something");
    const std::uint32_t source = missing(head, true).value_or(forward ? needed.front().from : needed.front().to);
    heads += fmt::format("\n  rank {} at cell {}: {} waits for {} of micro-batch {} from stage {} on rank {}", rank,
                         cursor.cell, to_text(head), forward ? "the activation" : "the gradient", head.microbatch,
                         source, rank_of(source));
    if (cursors_[rank_of(source)].ended) heads += ", which ends without running it";
  }
  if (waiting > kShown) heads += fmt::format("\n  and {} more ranks", waiting - kShown);
  if (waiting > 0)
    throw UserError(fmt::format("schedule {}: deadlock, {} of {} ranks wait forever:{}", schedule_.name, waiting,
                                cursors_.size(), heads));

  for (std::uint32_t s = 0; s < places_.size(); ++s)
    for (std::uint32_t k = 0; k < microbatches_; ++k) {
      const Progress now = progress(s, k);
      if (now == kDone) continue;
      const char* what = now == kNothing ? "forward" : now == kForwarded ? "backward" : "weight gradient";
      throw UserError(fmt::format("schedule {}: rank {} ends at cell {} without the {} of stage {}, micro-batch {}",
                                  schedule_.name, rank_of(s), cursors_[rank_of(s)].cell, what, s, k));
    }
}

}  // namespace rehearsal::schedule
