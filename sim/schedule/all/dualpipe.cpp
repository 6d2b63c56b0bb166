// DualPipe and DualPipeV (deepseek-ai/DualPipe; DeepSeek-V3, arXiv 2412.19437, section 3.2.1): every rank holds two
// stages, and a forward of one runs overlapped with a backward of the other, so that each hides the other's
// communication. In DualPipe the stages belong to two copies of the model that take micro-batches from both ends of the
// pipeline; DualPipeV cuts that in half: one copy, folded, and the micro-batches of the second end are those that come
// back from the turn.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>

#include "base/error.hpp"
#include "schedule/registry.hpp"

namespace rehearsal::schedule {
namespace {

// What one rank runs: `ramp` ranks stand between it and the place where the two ways meet, `depth` on its other side.
struct Role {
  std::array<std::uint16_t, 2> stages;  // the way that the rank begins with, and the other
  std::uint32_t ramp, depth;
  std::uint32_t overlapped_rounds;
};

// Hands out the next action of each way; weight gradients that were split off wait in a queue.
class TwoWays {
 public:
  explicit TwoWays(const std::array<std::uint16_t, 2>& stages) : stages_(stages) {}

  Action forward(int way) { return {forwards_[at(way)]++, stages_[at(way)], Op::forward}; }
  Action overlapped_forward(int way) {
    Action action = forward(way);
    action.overlaps_next = true;
    return action;
  }
  Action backward(int way) { return {backwards_[at(way)]++, stages_[at(way)], Op::backward}; }
  Action input_gradient(int way) {
    Action action = backward(way);
    action.op = Op::input_gradient;
    weights_.push_back({action.microbatch, action.stage, Op::weight_gradient});
    return action;
  }
  Action weight_gradient() {
    const Action oldest = weights_.front();
    weights_.pop_front();
    return oldest;
  }

 private:
  static std::size_t at(int way) { return static_cast<std::size_t>(way); }

  std::array<std::uint16_t, 2> stages_;
  std::array<std::uint32_t, 2> forwards_{}, backwards_{};
  std::deque<Action> weights_;
};

// The eight steps of the repository's step().
Order eight_steps(Role role) {
  TwoWays run(role.stages);
  const std::uint32_t ramp = role.ramp, rounds = role.depth + 1;
  for (std::uint32_t i = 0; i < 2 * ramp; ++i) co_yield run.forward(0);
  for (std::uint32_t i = 0; i < rounds; ++i) {
    co_yield run.forward(0);
    co_yield run.forward(1);
  }
  for (std::uint32_t i = 0; i < ramp; ++i) {
    co_yield run.input_gradient(1);
    co_yield run.weight_gradient();
    co_yield run.forward(1);
  }
  for (std::uint32_t i = 0; i < role.overlapped_rounds; ++i) {
    // Where the ways meet the first backward follows at once: waiting for both would cost more than overlapping saves.
    if (i == 0 && ramp == 0)
      co_yield run.forward(0);
    else
      co_yield run.overlapped_forward(0);
    co_yield run.backward(1);
    co_yield run.overlapped_forward(1);
    co_yield run.backward(0);
  }
  for (std::uint32_t i = 0; i < ramp; ++i) {
    co_yield run.backward(1);
    co_yield run.overlapped_forward(1);
    co_yield run.backward(0);
  }
  // The second half of these backwards is split: the neighbours wait for the input gradients only.
  for (std::uint32_t k = 0; k < 2 * rounds; ++k) {
    const int way = k % 2 == 0 ? 1 : 0;
    if (k < rounds)
      co_yield run.backward(way);
    else
      co_yield run.input_gradient(way);
  }
  for (std::uint32_t i = 0; i < ramp; ++i) {
    co_yield run.weight_gradient();
    co_yield run.input_gradient(0);
  }
  for (std::uint32_t i = 0; i < rounds; ++i) co_yield run.weight_gradient();
}

// The ranks of the second half do what their mirror image does, with the two directions exchanged.
Order dualpipe_order(const Problem& problem, std::uint32_t rank) {
  const std::uint32_t p = problem.ranks, depth = std::min(rank, p - 1 - rank);
  const auto own = static_cast<std::uint16_t>(rank), other = static_cast<std::uint16_t>(2 * p - 1 - rank);
  Role role{{own, other}, p / 2 - 1 - depth, depth, problem.microbatches / 2 - p + depth + 1};
  if (rank >= p / 2) std::swap(role.stages[0], role.stages[1]);
  return eight_steps(role);
}

Order dualpipev_order(const Problem& problem, std::uint32_t rank) {
  const std::uint32_t p = problem.ranks;
  const auto down = static_cast<std::uint16_t>(rank), up = static_cast<std::uint16_t>(2 * p - 1 - rank);
  return eight_steps({{down, up}, p - 1 - rank, rank, problem.microbatches - 2 * p + rank + 1});
}

void check_filled(const char* name, const Problem& problem) {
  if (problem.microbatches >= 2 * std::uint64_t(problem.ranks)) return;
  throw UserError(fmt::format("schedule {}: {} micro-batches do not fill {} ranks from both ends; use at least {}",
                              name, problem.microbatches, problem.ranks, 2 * std::uint64_t(problem.ranks)));
}

void check_dualpipe(const Problem& problem) {
  if (problem.ranks % 2 != 0)
    throw UserError(
        fmt::format("schedule dualpipe: its two directions meet between two middle ranks, so the number of ranks must "
                    "be even, not {}; use {}",
                    problem.ranks, problem.ranks + 1));
  check_filled("dualpipe", problem);
}

void check_dualpipev(const Problem& problem) { check_filled("dualpipev", problem); }

}  // namespace

void register_dualpipe(Registry& registry) {
  registry.add({.name = "dualpipe",
                .summary = "Two copies of the model in opposite directions, forwards overlapped with backwards: p+1 "
                           "activations, parameters twice (DualPipe, arXiv 2412.19437).",
                .placement = Placement::bidirectional,
                .min_chunks = 2,
                .max_chunks = 2,
                .splits_backward = true,
                .check = check_dualpipe,
                .order = dualpipe_order});
  registry.add({.name = "dualpipev",
                .summary =
                    "DualPipe cut in half: one copy of the model, folded into a V, forwards overlapped with backwards "
                    "(deepseek-ai/DualPipe).",
                .placement = Placement::vee,
                .min_chunks = 2,
                .max_chunks = 2,
                .splits_backward = true,
                .check = check_dualpipev,
                .order = dualpipev_order});
}

}  // namespace rehearsal::schedule
