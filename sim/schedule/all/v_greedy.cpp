// V-Min, V-Half and 1F1B-V (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362): a building block
// (v_blocks.hpp), whose backwards follow its forwards so soon that a rank holds about a third, a half or two thirds of
// 1F1B, and passes that pull actions of the fill and the drain into empty cells without raising the peak. The orders
// look at no times.
#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "schedule/registry.hpp"
#include "schedule/v_blocks.hpp"
#include "schedule/within_limit.hpp"

namespace rehearsal::schedule {
namespace {

using namespace v_blocks;

// The steady phase, which no pass touches: from the first I0 to the last F0, both as a pass meets them.
class Phases {
 public:
  explicit Phases(std::size_t microbatches) : last_(microbatches - 1) {}
  enum Phase : std::uint8_t { fill, steady, drain };
  Phase of(std::size_t rank, Kind kind, std::size_t k) {
    if (phase_ == fill && kind == kI0 && rank == 0) phase_ = steady;
    if (phase_ != steady) return phase_;
    if (kind == kF0 && k == last_) phase_ = drain;
    return steady;
  }

 private:
  std::size_t last_;
  Phase phase_ = fill;
};

// Calls to(rank, kind, placed, cell) for every action in the order of cells, within a cell by rank, and moves the
// action to the cell that it returns, an earlier one or its own.
template <class To>
void pass(Grid& grid, std::uint32_t microbatches, bool whole, const To& to) {
  Placed placed(grid.ranks(), microbatches, whole);
  for (std::size_t from = 0; from < grid.length(); ++from)
    for (std::size_t rank = 0; rank < grid.ranks(); ++rank) {
      Kind* const line = grid.line(rank);
      const Kind kind = line[from];
      if (kind == kNone) continue;
      const std::size_t cell = to(rank, kind, placed, from);
      std::swap(line[from], line[cell]);
      placed.put(rank, kind, cell);
    }
}

// The first cell after what an action waits for and after its micro-batch before.
std::size_t earliest(const Placed& placed, std::size_t rank, Kind kind) {
  return std::max(placed.ready(rank, kind), placed.last(rank, kind));
}

// Weight gradients move like all others. `whole`: each fills the cell after its input gradient, a backward taking two
// cells, and the steady phase moves, too; else the k-th follows the k-th input gradient, whatever their chunks.
void reorder_with_weights(Grid& grid, std::uint32_t microbatches, bool whole) {
  std::vector<std::vector<std::int32_t>> held(grid.ranks());  // activations after each cell
  std::int32_t peak = std::int32_t(grid.peak());
  for (std::size_t rank = 0; rank < grid.ranks(); ++rank) {
    std::int32_t now = 0;
    for (std::size_t cell = 0; cell < grid.length(); ++cell)
      held[rank].push_back(now += change_of(grid.line(rank)[cell]));
  }
  std::vector<std::vector<std::size_t>> gradients(grid.ranks());  // cells of the input gradients so far, ascending
  Phases phases(microbatches);
  pass(grid, microbatches, whole, [&](std::size_t rank, Kind kind, const Placed& placed, std::size_t from) {
    const Kind* const line = grid.line(rank);
    std::vector<std::size_t>& done = gradients[rank];
    const auto free = [&](std::size_t cell) {
      while (cell < from && line[cell] != kNone) ++cell;
      return cell;
    };
    std::size_t to = from;
    if (phases.of(rank, kind, placed.count(rank, kind)) != Phases::steady || whole) {
      std::size_t first = earliest(placed, rank, kind);
      if (frees(kind) && !whole)
        first = std::max({done[placed.count(rank, kW1) + placed.count(rank, kW0)] + 1,
                          std::size_t(placed.last(rank, kW1)), std::size_t(placed.last(rank, kW0))});
      INVARIANT(first <= from, "an action follows what it needs");
      if (!is_forward(kind)) to = first;
      while (to > first && held[rank][to - 1] < peak) --to;  // an earlier forward is held for longer
      to = free(to);
      while (whole && is_gradient(kind) && to < from && line[to + 1] != kNone)
        to = free(to + 1);  // room for both cells
    }
    for (std::size_t cell = to; cell < from; ++cell) held[rank][cell] += change_of(kind);
    if (is_gradient(kind)) done.insert(std::upper_bound(done.begin(), done.end(), to), to);
    return to;
  });
}

// One rank whose weight gradients have no cells: each empty cell takes one that waits. Knows what the rank holds after
// every cell, so that a move is judged from the cells that it changes alone.
class FreeWeights {
 public:
  FreeWeights(const Kind* line, std::size_t length) : line_(line, line + length) {
    State state;
    for (const Kind kind : line_) {
      after_.push_back(state = next(state, kind));
      peak_ = std::max(peak_, state.held);
    }
  }
  std::int32_t peak() const { return peak_; }

  // Moves an action to an empty cell unless the rank would then hold more than `limit`.
  bool move(std::size_t from, std::size_t to, std::int32_t limit) {
    if (line_[to] != kNone) return false;
    std::swap(line_[from], line_[to]);
    std::vector<State> changed;
    State state = to > 0 ? after_[to - 1] : State{};
    for (std::size_t cell = to; cell < line_.size(); ++cell) {
      state = next(state, line_[cell]);
      if (state.held > limit) return std::swap(line_[from], line_[to]), false;
      if (cell > from && state == after_[cell]) break;
      changed.push_back(state);
    }
    std::copy(changed.begin(), changed.end(), after_.begin() + std::ptrdiff_t(to));
    return true;
  }

 private:
  struct State {
    std::int32_t held = 0, waiting = 0;
    friend bool operator==(const State&, const State&) = default;
  };
  static State next(State state, Kind kind) {
    state.held += change_of(kind);
    if (is_gradient(kind)) ++state.waiting;
    if (kind == kNone && state.waiting > 0) --state.held, --state.waiting;
    return state;
  }

  std::vector<Kind> line_;
  std::vector<State> after_;
  std::int32_t peak_ = 0;
};

// Only the drain moves, and weight gradients settle anew after every move.
void reorder_without_weights(Grid& grid, std::uint32_t microbatches) {
  std::vector<FreeWeights> ranks;
  std::int32_t peak = 0;
  for (std::size_t rank = 0; rank < grid.ranks(); ++rank)
    peak = std::max(peak, ranks.emplace_back(grid.line(rank), grid.length()).peak());
  Phases phases(microbatches);
  pass(grid, microbatches, false, [&](std::size_t rank, Kind kind, const Placed& placed, std::size_t from) {
    if (phases.of(rank, kind, placed.count(rank, kind)) != Phases::drain) return from;
    std::size_t to = earliest(placed, rank, kind);
    while (to < from && !ranks[rank].move(from, to, peak)) ++to;
    return to;
  });
}

void remove_weights(Grid& grid) {
  for (std::size_t rank = 0; rank < grid.ranks(); ++rank)
    std::replace_if(grid.line(rank), grid.line(rank) + grid.length(), frees, kNone);
}

Planned plan_from(const Problem& problem, const Block& first, std::uint32_t x) {
  const std::uint32_t m = problem.microbatches;
  const auto blocks = rows(first, problem.ranks, 0, x, x);
  INVARIANT(blocks, "no cell is wanted twice");
  Grid grid(*blocks, m);
  const auto settle = [&] {
    remove_weights(grid);
    INVARIANT(settle_weights(grid), "a rank waits with no more weight gradients than it holds");
  };
  const auto tighten = [&] { INVARIANT(squeeze(grid, m), "an action follows what it needs"); };
  settle();
  reorder_with_weights(grid, m, false);
  tighten();
  remove_weights(grid);
  reorder_without_weights(grid, m);
  settle();
  tighten();
  settle();
  return program(problem, grid);
}

Block block(std::uint32_t f1, std::uint32_t i1, std::uint32_t i0) {
  return {0, std::uint8_t(f1 % kPeriod), std::uint8_t(i1 % kPeriod), std::uint8_t(i0 % kPeriod)};
}

// Neighbours one cell apart both ways: a micro-batch is gone after 4p cells. Where 3 divides p two micro-batches would
// want the same cell, so the backward starts 2 cells later.
Planned plan_min(const Problem& problem) {
  const std::uint32_t p = problem.ranks, d = p % 3 == 0 ? 2 : 0;
  return plan_from(problem, block(2 * p - 1, 2 * p + d, 4 * p + d - 1), 1);
}

// Two cells apart on the ways down, one on the ways up: gone after 6p cells, 3 more where p is even.
Planned plan_half(const Problem& problem) {
  const std::uint32_t p = problem.ranks, d = p % 2 == 0 ? 3 : 0;
  return plan_from(problem, block(3 * p - 2, 3 * p + d - 1, 6 * p + d - 2), 2);
}

// Down and up the V one cell per rank; the backwards two, and after every third rank three more, so that no cell is
// wanted twice by micro-batches 6 cells apart.
Planned plan_1f1b(const Problem& problem) {
  const std::uint32_t p = problem.ranks;
  std::vector<Block> blocks(p);
  std::uint32_t cell = 0;
  for (std::uint32_t rank = 0; rank < p; ++rank) blocks[rank][kF0] = std::uint8_t(cell++ % kPeriod);
  for (std::uint32_t rank = p; rank-- > 0;) blocks[rank][kF1] = std::uint8_t(cell++ % kPeriod);
  if (p % 3 == 0) cell += 3;
  for (std::uint32_t step = 0, since = 2 * (p - 1) % 3; step < 2 * p; ++step, cell += 2) {
    Block& of_rank = blocks[step < p ? step : 2 * p - 1 - step];
    of_rank[step < p ? kI1 : kI0] = std::uint8_t(cell % kPeriod);
    of_rank[step < p ? kW1 : kW0] = std::uint8_t((cell + 1) % kPeriod);
    if (++since == 3) since = 0, cell += 3;
  }
  Grid grid(blocks, problem.microbatches);
  reorder_with_weights(grid, problem.microbatches, true);
  return program(problem, grid, true);
}

}  // namespace

void register_v_greedy(Registry& registry) {
  const auto add = [&](const char* name, Planned (*plan)(const Problem&), bool splits, const char* summary) {
    registry.add({.name = name,
                  .summary = summary,
                  .placement = Placement::vee,
                  .min_chunks = 2,
                  .max_chunks = 2,
                  .splits_backward = splits,
                  .check =
                      [=](const Problem& problem) {
                        if (problem.memory_limit) require_within_limit(name, Placement::vee, problem, plan(problem));
                      },
                  .plan = plan});
  };
  add("v-min", plan_min, true,
      "Two chunks per rank in a V, least memory: every rank holds about a third of what 1F1B holds on rank 0 (V-Min, "
      "arXiv 2405.15362).");
  add("v-half", plan_half, true,
      "Two chunks per rank in a V, every rank holds about half of what 1F1B holds on rank 0 (V-Half, arXiv "
      "2405.15362).");
  add("1f1b-v", plan_1f1b, false,
      "Two chunks per rank in a V with full backwards: every rank holds about two thirds of what 1F1B holds on rank 0 "
      "(arXiv 2405.15362).");
}

}  // namespace rehearsal::schedule
