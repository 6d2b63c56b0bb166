// Building blocks over two chunks per rank in a V (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362,
// section 3 and appendix A): one micro-batch is laid out on a grid of unit cells, the others repeat it, and passes over
// the grid then rearrange the fill and the drain without raising the peak.
//
// A grid holds one line of cells per rank; a cell holds one kind of action, its micro-batch is the count of that kind
// before it. Nothing here knows times. The passes of v-min, v-half and 1f1b-v are in all/v_greedy.cpp, those of
// v-adaptive, which tries many blocks, in all/v_adaptive.cpp.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearsal::schedule::v_blocks {

// F and I of chunk 0 and 1 in the order of their data, then the weight gradients.
enum Kind : std::uint8_t { kF0, kF1, kI1, kI0, kW1, kW0, kKinds, kNone = kKinds };
constexpr std::uint32_t kPeriod = 6;  // cells per micro-batch in the steady phase: two F, two I, two W

constexpr bool is_forward(Kind kind) { return kind <= kF1; }
constexpr bool is_gradient(Kind kind) { return kind == kI1 || kind == kI0; }
constexpr bool frees(Kind kind) { return kind == kW1 || kind == kW0; }
constexpr Kind weight_of(Kind gradient) { return gradient == kI1 ? kW1 : kW0; }
constexpr Kind gradient_of(Kind weight) { return weight == kW1 ? kI1 : kI0; }
constexpr bool downwards(Kind kind) { return kind == kF0 || kind == kI1; }  // from rank to rank + 1
// What an action adds to the activations held.
constexpr std::int32_t change_of(Kind kind) { return is_forward(kind) ? 1 : frees(kind) ? -1 : 0; }

// One rank's cell modulo kPeriod of each kind; all different.
using Block = std::array<std::uint8_t, kKinds>;
using Counts = std::array<std::uint32_t, kKinds>;

// Blocks of all ranks from that of rank 0: F0 and I1 of the next rank come x cells later, F1 and I0 one cell earlier,
// with one x for the `upper` ranks below the first and another for the others; weight gradients in the first free cells
// after their input gradients. Nothing if two actions of a rank want one cell.
std::optional<std::vector<Block>> rows(Block first, std::uint32_t ranks, std::uint32_t upper, std::uint32_t x_upper,
                                       std::uint32_t x_lower);

// All lines have the same length and lie one after the other: hundreds of grids are made and read cell by cell.
class Grid {
 public:
  // A block is at most 4p steps of kPeriod cells high; rearranging adds at most what a rank may hold, 2p, two cells
  // each.
  Grid(std::uint32_t ranks, std::uint32_t microbatches)
      : ranks_(ranks),
        widest_(std::size_t(kPeriod) * (std::size_t(microbatches) + 5 * ranks + 2)),
        cells_(ranks * widest_, kNone) {}
  // Micro-batch 0 takes the first cells of its kinds one after the other, down the V, up, and back; the others follow
  // kPeriod cells apart.
  Grid(const std::vector<Block>& blocks, std::uint32_t microbatches);

  std::uint32_t ranks() const { return ranks_; }
  std::size_t length() const { return length_; }
  std::size_t widest() const { return widest_; }
  Kind* line(std::size_t rank) { return cells_.data() + rank * widest_; }
  const Kind* line(std::size_t rank) const { return cells_.data() + rank * widest_; }
  // Cells from here on are empty.
  void set_length(std::size_t length) { length_ = length; }
  // The most activations (F0, F1 until their W) of a rank, of any rank.
  std::uint32_t peak(std::size_t rank) const;
  std::uint32_t peak() const;

 private:
  std::uint32_t ranks_;
  std::size_t widest_, length_ = 0;
  std::vector<Kind> cells_;
};

// The actions that a pass has been at, by one past their cells. `whole`: a gradient is handed on after the weight
// gradient.
class Placed {
 public:
  Placed(std::uint32_t ranks, std::uint32_t microbatches, bool whole = false)
      : ranks_(ranks),
        microbatches_(microbatches),
        whole_(whole),
        count_(std::size_t(ranks) * kKinds),
        after_(count_.size() * microbatches) {}
  static constexpr std::uint32_t kNever = UINT32_MAX;

  std::uint32_t count(std::size_t rank, Kind kind) const { return count_[rank * kKinds + kind]; }
  std::uint32_t after(std::size_t rank, Kind kind, std::size_t k) const {
    return k < count(rank, kind) ? after_[(rank * kKinds + kind) * microbatches_ + k] : kNever;
  }
  // After the last one; 0 where there is none.
  std::uint32_t last(std::size_t rank, Kind kind) const {
    return count(rank, kind) == 0 ? 0 : after(rank, kind, count(rank, kind) - 1);
  }
  // After what the next action of a kind waits for: a weight gradient for its input gradient, others for the rank
  // before them on the V or, where it turns, for what their own rank has done before.
  std::uint32_t ready(std::size_t rank, Kind kind) const {
    const std::uint32_t k = count(rank, kind);
    if (frees(kind)) return after(rank, gradient_of(kind), k);
    const bool down = downwards(kind);
    if (down ? rank > 0 : rank + 1 < ranks_) return after(down ? rank - 1 : rank + 1, handed_on(kind), k);
    return kind == kF0 ? 0 : after(rank, handed_on(Kind(kind - 1)), k);
  }
  void put(std::size_t rank, Kind kind, std::size_t cell) {
    const std::size_t at = rank * kKinds + kind;
    after_[at * microbatches_ + count_[at]++] = std::uint32_t(cell) + 1;
  }

 private:
  Kind handed_on(Kind kind) const { return whole_ && is_gradient(kind) ? weight_of(kind) : kind; }

  std::size_t ranks_, microbatches_;
  bool whole_;
  std::vector<std::uint32_t> count_, after_;  // per (rank, kind), after_ per micro-batch
};

// Moves every action to the earliest cell that keeps the order of its rank. False if something precedes what it needs,
// or is there more often than there are micro-batches.
bool squeeze(Grid& grid, std::uint32_t microbatches);

// Weight gradients that are not on the grid into the empty cells after their input gradients and after the weight
// gradients that are there, those of chunk 1 first. False if the grid is too small.
bool settle_weights(Grid& grid);

Action action(const Problem& problem, std::uint32_t rank, Kind kind, std::uint32_t microbatch);

// The program of each rank. `whole`: an input gradient stands for both.
Planned program(const Problem& problem, const Grid& grid, bool whole = false);

}  // namespace rehearsal::schedule::v_blocks
