// V-Min and V-Half (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362): one micro-batch is laid out on a
// grid of unit cells, two chunks per rank in a V, and repeated every 6 cells (two F, two I, two W per rank). How soon
// its backwards follow its forwards decides how much every rank holds: about a third or a half of 1F1B. Two passes
// then pull actions of the fill and the drain into empty cells without raising the peak. The order looks at no times.
#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "schedule/registry.hpp"
#include "schedule/within_limit.hpp"

namespace rehearsal::schedule {
namespace {

// The actions of one micro-batch on a rank in the order of their data; W is one kind until chunks get their own.
enum Kind : std::uint8_t { kF0, kF1, kI1, kI0, kW, kW0, kKinds, kNone = kKinds };
constexpr std::uint32_t kPeriod = 6;
using Cell = std::int32_t;
using StartCells = std::array<Cell, 4>;  // of micro-batch 0: F0, F1, I1, I0

// Where the actions of one rank are. A cell holds one action; cells of one kind ascend with the micro-batch.
struct Row {
  std::array<std::vector<Cell>, kKinds> cells;

  Cell end() const {
    Cell last = -1;
    for (const auto& kind : cells)
      if (!kind.empty()) last = std::max(last, kind.back());
    return last + 1;
  }
  // Kind in each cell, kNone where it is empty.
  std::vector<Kind> line() const {
    std::vector<Kind> kinds(std::size_t(end()), kNone);
    for (int k = 0; k < kKinds; ++k)
      for (const Cell cell : cells[std::size_t(k)]) kinds[std::size_t(cell)] = Kind(k);
    return kinds;
  }
};
using Grid = std::vector<Row>;

// Calls each(rank, kind, micro-batch, cell) in the order of cells, within a cell by rank. `each` may move an action to
// an earlier cell.
template <class Each>
void scan(const Grid& grid, const Each& each) {
  std::vector<std::vector<Kind>> lines;
  std::size_t end = 0;
  for (const Row& row : grid) {
    lines.push_back(row.line());
    end = std::max(end, lines.back().size());
  }
  std::vector<std::array<std::size_t, kKinds>> next(grid.size());
  for (std::size_t cell = 0; cell < end; ++cell)
    for (std::size_t rank = 0; rank < grid.size(); ++rank) {
      if (cell >= lines[rank].size() || lines[rank][cell] == kNone) continue;
      const Kind kind = lines[rank][cell];
      each(rank, kind, next[rank][kind]++, Cell(cell));
    }
}

// One past the cells of the actions that an F or I waits for: at the sending neighbour, of the previous kind on its own
// rank, and of the previous micro-batch. F0 and I1 come from the rank above, F1 and I0 from the one below.
Cell earliest(const Grid& grid, std::size_t rank, Kind kind, std::size_t k) {
  Cell after = -1;
  if ((kind == kF0 || kind == kI1) && rank > 0) after = std::max(after, grid[rank - 1].cells[kind][k]);
  if ((kind == kF1 || kind == kI0) && rank + 1 < grid.size()) after = std::max(after, grid[rank + 1].cells[kind][k]);
  if (kind > kF0) after = std::max(after, grid[rank].cells[kind - 1u][k]);
  if (k > 0) after = std::max(after, grid[rank].cells[kind][k - 1]);
  return after + 1;
}

// Weight gradients into the empty cells after their input gradients; those of chunk 1 first where chunks differ.
void put_weights(Row& row, bool by_chunk) {
  row.cells[kW].clear();
  row.cells[kW0].clear();
  std::size_t waiting = 0, waiting0 = 0;
  const auto put = [&](Cell cell) {
    if (waiting > 0) return --waiting, row.cells[kW].push_back(cell);
    if (waiting0 > 0) return --waiting0, row.cells[kW0].push_back(cell);
  };
  const std::vector<Kind> line = row.line();
  for (std::size_t cell = 0; cell < line.size(); ++cell) {
    if (line[cell] == kNone) put(Cell(cell));
    if (line[cell] == kI1) ++waiting;
    if (line[cell] == kI0) ++(by_chunk ? waiting0 : waiting);
  }
  for (Cell cell = Cell(line.size()); waiting + waiting0 > 0; ++cell) put(cell);
}

// Moves every action to the earliest cell that keeps the order of its rank.
void squeeze(Grid& grid) {
  Grid moved = grid;
  std::vector<Cell> end(grid.size(), 0);
  scan(grid, [&](std::size_t rank, Kind kind, std::size_t k, Cell) {
    Cell cell = end[rank];
    if ((kind == kF0 || kind == kI1) && rank > 0) cell = std::max(cell, moved[rank - 1].cells[kind][k] + 1);
    if ((kind == kF1 || kind == kI0) && rank + 1 < grid.size())
      cell = std::max(cell, moved[rank + 1].cells[kind][k] + 1);
    moved[rank].cells[kind][k] = cell;
    end[rank] = cell + 1;
  });
  grid = std::move(moved);
}

// The steady phase, which no pass touches: from the first I0 to the last F0, both as the scan meets them.
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

// First pass: weight gradients have cells of their own, which move like all others.
void reorder_with_weights(Grid& grid) {
  std::vector<std::vector<std::int32_t>> held(grid.size());  // activations after each cell
  std::int32_t peak = 0;
  for (std::size_t rank = 0; rank < grid.size(); ++rank) {
    std::int32_t now = 0;
    for (const Kind kind : grid[rank].line()) {
      now += kind <= kF1 ? 1 : kind == kW ? -1 : 0;
      held[rank].push_back(now);
      peak = std::max(peak, now);
    }
  }
  std::vector<std::vector<bool>> taken(grid.size());
  for (std::size_t rank = 0; rank < grid.size(); ++rank) taken[rank].resize(held[rank].size());
  std::vector<std::vector<Cell>> gradients(grid.size());  // cells of the input gradients so far, ascending
  Phases phases(grid[0].cells[kF0].size());

  scan(Grid(grid), [&](std::size_t rank, Kind kind, std::size_t k, Cell from) {
    Cell to = from;
    std::vector<std::int32_t>& memory = held[rank];
    std::vector<Cell>& done = gradients[rank];
    if (phases.of(rank, kind, k) != Phases::steady) {
      if (kind == kW) {
        to = done[k] + 1;  // the k-th weight gradient belongs to the k-th input gradient, whatever their chunks
        if (k > 0) to = std::max(to, grid[rank].cells[kW][k - 1] + 1);
      } else {
        const Cell first = earliest(grid, rank, kind, k);
        INVARIANT(first <= from, "an action follows what it needs");
        // An earlier forward is held for longer.
        for (to = kind <= kF1 ? from : first; to > first && memory[std::size_t(to) - 1] < peak;) --to;
      }
      while (to < from && taken[rank][std::size_t(to)]) ++to;
    }
    for (Cell cell = to; cell < from; ++cell) memory[std::size_t(cell)] += kind <= kF1 ? 1 : kind == kW ? -1 : 0;
    taken[rank][std::size_t(to)] = true;
    grid[rank].cells[kind][k] = to;
    if (kind == kI1 || kind == kI0) done.insert(std::upper_bound(done.begin(), done.end(), to), to);
  });
}

// One rank whose weight gradients have no cells: each empty cell takes one that waits. Knows what the rank holds after
// every cell, so that a move is judged from the cells that it changes alone.
class FreeWeights {
 public:
  explicit FreeWeights(const Row& row) : line_(row.line()), after_(line_.size()) {
    State state;
    for (std::size_t cell = 0; cell < line_.size(); ++cell) {
      after_[cell] = state = next(state, line_[cell]);
      peak_ = std::max(peak_, state.held);
    }
  }
  std::int32_t peak() const { return peak_; }
  bool empty(Cell cell) const { return line_[std::size_t(cell)] == kNone; }

  // Moves an action unless the rank would then hold more than `limit`.
  bool move(Cell from, Cell to, std::int32_t limit) {
    std::swap(line_[std::size_t(from)], line_[std::size_t(to)]);
    const std::size_t end = walk(from, to, limit, false);
    if (end == 0) return std::swap(line_[std::size_t(from)], line_[std::size_t(to)]), false;
    walk(from, to, limit, true);
    return true;
  }

 private:
  struct State {
    std::int32_t held = 0, waiting = 0;
    friend bool operator==(const State&, const State&) = default;
  };
  static State next(State state, Kind kind) {
    if (kind <= kF1) ++state.held;
    if (kind == kI1 || kind == kI0) ++state.waiting;
    if (kind == kNone && state.waiting > 0) --state.held, --state.waiting;
    return state;
  }
  // From the cell that changed first until all is as it was; 0 if the limit is broken.
  std::size_t walk(Cell from, Cell to, std::int32_t limit, bool keep) {
    State state = to > 0 ? after_[std::size_t(to) - 1] : State{};
    for (std::size_t cell = std::size_t(to); cell < line_.size(); ++cell) {
      state = next(state, line_[cell]);
      if (state.held > limit) return 0;
      if (cell > std::size_t(from) && state == after_[cell]) return cell;
      if (keep) after_[cell] = state;
    }
    return line_.size();
  }

  std::vector<Kind> line_;
  std::vector<State> after_;
  std::int32_t peak_ = 0;
};

// Second pass: only the drain moves, and weight gradients settle anew after every move.
void reorder_without_weights(Grid& grid) {
  std::vector<FreeWeights> rows(grid.begin(), grid.end());
  std::int32_t peak = 0;
  for (const FreeWeights& row : rows) peak = std::max(peak, row.peak());
  Phases phases(grid[0].cells[kF0].size());
  scan(Grid(grid), [&](std::size_t rank, Kind kind, std::size_t k, Cell from) {
    if (phases.of(rank, kind, k) != Phases::drain) return;
    for (Cell to = earliest(grid, rank, kind, k); to < from; ++to) {
      if (!rows[rank].empty(to) || !rows[rank].move(from, to, peak)) continue;
      grid[rank].cells[kind][k] = to;
      return;
    }
  });
}

Planned plan_from(const Problem& problem, const std::vector<StartCells>& block) {
  Grid grid(problem.ranks);
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank)
    for (std::size_t kind = 0; kind < block[rank].size(); ++kind)
      for (std::uint32_t k = 0; k < problem.microbatches; ++k)
        grid[rank].cells[kind].push_back(block[rank][kind] + Cell(kPeriod * k));

  const auto settle_weights = [&](bool by_chunk) {
    for (Row& row : grid) put_weights(row, by_chunk);
  };
  const auto remove_weights = [&] {
    for (Row& row : grid) row.cells[kW].clear();
  };
  settle_weights(false);
  reorder_with_weights(grid);
  squeeze(grid);
  remove_weights();
  reorder_without_weights(grid);
  settle_weights(false);
  squeeze(grid);
  settle_weights(true);

  Planned plan;
  plan.ranks.resize(problem.ranks);
  scan(grid, [&](std::size_t rank, Kind kind, std::size_t k, Cell) {
    constexpr std::array<Op, kKinds> kOp{Op::forward,        Op::forward,         Op::input_gradient,
                                         Op::input_gradient, Op::weight_gradient, Op::weight_gradient};
    const bool first_chunk = kind == kF0 || kind == kI0 || kind == kW0;
    const std::uint32_t stage = stage_of(Placement::vee, problem, std::uint32_t(rank), first_chunk ? 0 : 1);
    plan.ranks[rank].push_back({std::uint32_t(k), static_cast<std::uint16_t>(stage), kOp[kind]});
  });
  return plan;
}

// Neighbours one cell apart both ways: a micro-batch is gone after 4p cells. Where 3 divides p two micro-batches would
// want the same cell, so the backward starts 2 cells later.
Planned plan_min(const Problem& problem) {
  const Cell p = Cell(problem.ranks), d = p % 3 == 0 ? 2 : 0;
  std::vector<StartCells> block;
  for (Cell i = 0; i < p; ++i) block.push_back({i, 2 * p - 1 - i, 2 * p + d + i, 4 * p + d - 1 - i});
  return plan_from(problem, block);
}

// Two cells apart on the ways down, one on the ways up: gone after 6p cells, 3 more where p is even.
Planned plan_half(const Problem& problem) {
  const Cell p = Cell(problem.ranks), d = p % 2 == 0 ? 3 : 0;
  std::vector<StartCells> block;
  for (Cell i = 0; i < p; ++i) block.push_back({2 * i, 3 * p - 2 - i, 3 * p + d - 1 + 2 * i, 6 * p + d - 2 - i});
  return plan_from(problem, block);
}

}  // namespace

void register_v_greedy(Registry& registry) {
  const auto add = [&](const char* name, const char* summary, Planned (*plan)(const Problem&)) {
    registry.add({.name = name,
                  .summary = summary,
                  .placement = Placement::vee,
                  .min_chunks = 2,
                  .max_chunks = 2,
                  .splits_backward = true,
                  .check =
                      [=](const Problem& problem) {
                        if (problem.memory_limit) require_within_limit(name, Placement::vee, problem, plan(problem));
                      },
                  .plan = plan});
  };
  add("v-min",
      "Two chunks per rank in a V, least memory: every rank holds about a third of what 1F1B holds on rank 0 (V-Min, "
      "arXiv 2405.15362).",
      plan_min);
  add("v-half",
      "Two chunks per rank in a V, every rank holds about half of what 1F1B holds on rank 0 (V-Half, arXiv "
      "2405.15362).",
      plan_half);
}

}  // namespace rehearsal::schedule
