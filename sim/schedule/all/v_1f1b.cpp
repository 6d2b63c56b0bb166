// 1F1B over two chunks per rank in a V (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362): full
// backwards. One micro-batch is laid out on a grid of unit cells, a backward taking two, and repeated every 6 cells
// (two F, two B of two cells per rank). Then every action moves to the earliest free cell that neither its dependencies
// nor the peak of what is held forbid. All ranks end up holding about two thirds of what 1F1B holds on rank 0. The
// order looks at no times.
#include <algorithm>
#include <array>

#include "schedule/registry.hpp"
#include "schedule/within_limit.hpp"

namespace rehearsal::schedule {
namespace {

// B1, B0 are the first, B1End, B0End the second cell of a backward of chunk 1, 0.
enum Kind : std::uint8_t { kF0, kF1, kB1, kB0, kB1End, kB0End, kKinds, kNone = kKinds };
constexpr std::size_t kPeriod = 6;

// Start cells of micro-batch 0 on each rank: down and up the V one cell per rank; the backwards two, and after every
// third rank three more, so that no cell is wanted twice by micro-batches 6 cells apart.
std::vector<std::array<std::size_t, kKinds>> building_block(std::size_t p) {
  std::vector<std::array<std::size_t, kKinds>> block(p);
  std::size_t cell = 0;
  for (std::size_t rank = 0; rank < p; ++rank) block[rank][kF0] = cell++;
  for (std::size_t rank = p; rank-- > 0;) block[rank][kF1] = cell++;
  if (p % 3 == 0) cell += 3;
  std::size_t since = (3 - (p + 2) % 3) % 3;
  const auto backward = [&](std::size_t rank, Kind begin, Kind end) {
    block[rank][begin] = cell;
    block[rank][end] = cell + 1;
    cell += 2;
    if (++since == 3) since = 0, cell += 3;
  };
  for (std::size_t rank = 0; rank < p; ++rank) backward(rank, kB1, kB1End);
  for (std::size_t rank = p; rank-- > 0;) backward(rank, kB0, kB0End);
  return block;
}

class Reorder {
 public:
  Reorder(std::size_t p, std::size_t m) : lines_(p), held_(p), placed_(p) {
    const auto block = building_block(p);
    std::size_t end = 0;
    for (const auto& of_rank : block) end = std::max(end, *std::max_element(of_rank.begin(), of_rank.end()) + 1);
    end += kPeriod * (m - 1);
    for (std::size_t rank = 0; rank < p; ++rank) {
      lines_[rank].assign(end, kNone);
      for (std::size_t kind = 0; kind < kKinds; ++kind)
        for (std::size_t k = 0; k < m; ++k) lines_[rank][block[rank][kind] + kPeriod * k] = Kind(kind);
      std::int32_t now = 0;
      for (const Kind kind : lines_[rank]) {
        now += change(kind);
        held_[rank].push_back(now);
        peak_ = std::max(peak_, now);
      }
    }
    for (std::size_t cell = 0; cell < end; ++cell)
      for (std::size_t rank = 0; rank < p; ++rank)
        if (lines_[rank][cell] != kNone) place(rank, cell);
  }

  const std::vector<Kind>& line(std::size_t rank) const { return lines_[rank]; }

 private:
  static std::int32_t change(Kind kind) {
    if (kind <= kF1) return 1;
    return kind == kB1End || kind == kB0End ? -1 : 0;
  }

  // One past the cells of the actions that the next action of a kind waits for: the previous micro-batch, its own first
  // cell, the sending neighbour, the turn of the V.
  std::size_t earliest(std::size_t rank, Kind kind) const {
    const std::size_t k = placed_[rank][kind].size();
    std::size_t first = k > 0 ? placed_[rank][kind][k - 1] + 1 : 0;
    const auto after = [&](std::size_t of, Kind what) { first = std::max(first, placed_[of][what][k] + 1); };
    const bool top = rank == 0, turn = rank + 1 == lines_.size();
    if (kind == kF0 && !top) after(rank - 1, kF0);
    if (kind == kF1) turn ? after(rank, kF0) : after(rank + 1, kF1);
    if (kind == kB1) top ? after(rank, kF1) : after(rank - 1, kB1End);
    if (kind == kB0) turn ? after(rank, kB1End) : after(rank + 1, kB0End);
    if (kind == kB1End) after(rank, kB1);
    if (kind == kB0End) after(rank, kB0);
    return first;
  }

  void place(std::size_t rank, std::size_t from) {
    std::vector<Kind>& line = lines_[rank];
    std::vector<std::int32_t>& held = held_[rank];
    const Kind kind = line[from];
    const auto next_free = [&](std::size_t cell) {
      while (cell < from && line[cell] != kNone) ++cell;
      return cell;
    };
    std::size_t to = next_free(earliest(rank, kind));
    if (kind == kB1 || kind == kB0)
      while (to < from && line[to + 1] != kNone) to = next_free(to + 1);  // room for both cells
    if (kind <= kF1 && to < from) {                                       // an earlier forward is held for longer
      std::size_t cell = from;
      while (cell > to && held[cell - 1] < peak_) --cell;
      to = next_free(cell);
    }
    for (std::size_t cell = to; cell < from; ++cell) held[cell] += change(kind);
    line[from] = kNone;
    line[to] = kind;
    placed_[rank][kind].push_back(to);
  }

  std::vector<std::vector<Kind>> lines_;                              // what is in each cell of a rank
  std::vector<std::vector<std::int32_t>> held_;                       // activations after it
  std::vector<std::array<std::vector<std::size_t>, kKinds>> placed_;  // final cells, per micro-batch
  std::int32_t peak_ = 0;
};

Planned plan(const Problem& problem) {
  const Reorder reordered(problem.ranks, problem.microbatches);
  Planned plan;
  plan.ranks.resize(problem.ranks);
  for (std::uint32_t rank = 0; rank < problem.ranks; ++rank) {
    std::array<std::uint32_t, kKinds> next{};
    for (const Kind kind : reordered.line(rank)) {
      if (kind > kB0) continue;
      const std::uint32_t stage = stage_of(Placement::vee, problem, rank, kind == kF0 || kind == kB0 ? 0 : 1);
      plan.ranks[rank].push_back(
          {next[kind]++, static_cast<std::uint16_t>(stage), kind <= kF1 ? Op::forward : Op::backward});
    }
  }
  return plan;
}

}  // namespace

void register_v_1f1b(Registry& registry) {
  registry.add({.name = "1f1b-v",
                .summary =
                    "Two chunks per rank in a V with full backwards: every rank holds about two thirds of what 1F1B "
                    "holds on rank 0 (arXiv 2405.15362).",
                .placement = Placement::vee,
                .min_chunks = 2,
                .max_chunks = 2,
                .check =
                    [](const Problem& problem) {
                      if (problem.memory_limit) require_within_limit("1f1b-v", Placement::vee, problem, plan(problem));
                    },
                .plan = plan});
}

}  // namespace rehearsal::schedule
