// From a building block to an order over two chunks per rank in a V (Pipeline Parallelism with Controllable Memory,
// arXiv 2405.15362, section 3 and appendix A): repeat the block for every micro-batch, squeeze out what is empty, then
// rearrange the fill and the drain without raising the peak. Used by v-adaptive, which tries many blocks.
//
// A grid holds one line of unit cells per rank; a cell holds one kind of action, its micro-batch is the count of that
// kind before it. Nothing here knows times.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rehearsal::schedule::v_blocks {

// F and I of chunk 0 and 1 in the order of their data, then the weight gradients.
enum Kind : std::uint8_t { kF0, kF1, kI1, kI0, kW1, kW0, kKinds, kNone = kKinds };
constexpr std::uint32_t kPeriod = 6;  // cells per micro-batch in the steady phase: two F, two I, two W

// One rank's cell modulo kPeriod of each kind; all different.
using Block = std::array<std::uint8_t, kKinds>;

// Puts the two weight gradients into the first free cells after their input gradients (modulo kPeriod).
void put_weights(Block& block);

// All lines have the same length and lie one after the other: hundreds of grids are made and read cell by cell.
class Grid {
 public:
  Grid() = default;
  Grid(std::uint32_t ranks, std::size_t widest) : widest_(widest), cells_(ranks * widest, kNone) {}
  std::size_t length() const { return length_; }
  std::size_t widest() const { return widest_; }
  Kind* line(std::size_t rank) { return cells_.data() + rank * widest_; }
  const Kind* line(std::size_t rank) const { return cells_.data() + rank * widest_; }
  // Cells from here on are empty.
  void set_length(std::size_t length) { length_ = length; }
  void clear();

 private:
  std::size_t widest_ = 0, length_ = 0;
  std::vector<Kind> cells_;
};

// Makes grids of one size; keeps its buffers between them.
class Builder {
 public:
  // `limit`: the most activations (F0, F1 until their W) of a rank, at most 2p.
  Builder(std::uint32_t ranks, std::uint32_t microbatches, std::uint32_t limit);

  enum Result : std::uint8_t {
    built,       // in grid()
    over_limit,  // holds too much
    impossible   // the rearranged fill or drain does not fit
  };
  Result build(const std::vector<Block>& blocks);
  const Grid& grid() const { return grid_; }

 private:
  std::uint32_t repeat(const std::vector<Block>& blocks);
  bool squeeze(std::uint32_t m);
  bool refill(std::uint32_t most);
  void keep_first();
  void put_off_weights(std::uint32_t limit);
  bool redrain(std::uint32_t held);
  void fill_holes(std::int32_t most);
  bool relabel_weights();
  bool put(std::size_t rank, std::int64_t cell, Kind kind);
  std::uint32_t peak_of(std::size_t rank) const;
  std::uint32_t peak() const;

  std::uint32_t p_, wanted_, limit_;
  std::uint32_t m_;  // micro-batches that are repeated: at least 2p, the fill being written for a full pipeline
  Grid grid_, next_;
  // Of one pass over the cells. Plain arrays: hundreds of blocks are tried, in test builds without optimisation too.
  struct PerRank {
    std::uint32_t count[kKinds] = {};  // of each kind so far
    std::uint32_t end = 0;
    std::int32_t held = 0;
  };
  std::vector<PerRank> ranks_;
  std::array<std::vector<std::uint32_t>, 4> placed_;  // F and I per (micro-batch, rank): a cell + 1, 0 = not yet
  std::vector<Kind> waiting_;
};

}  // namespace rehearsal::schedule::v_blocks
