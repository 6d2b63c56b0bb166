// Where the memory of a rank repeats itself: micro-batch after micro-batch does the same to other buffers. A replay
// that finds its allocator in a state in which it was before, within such a stretch, goes on as it did then, and need
// not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "graph/task_graph.hpp"
#include "timeline/memory.hpp"

namespace rehearsal::answer {

// Every symbol in [begin + period, end) equals the one a period before it. Nothing repeats: period 0.
struct Stretch {
  std::size_t begin = 0, end = 0, period = 0;
};
// The longest of the periods that are found among distances between equal symbols.
Stretch longest_stretch(std::span<const std::uint32_t> symbols);

class MemoryPattern {
 public:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  // Refers to both.
  MemoryPattern(const graph::Program& program, std::span<const timeline::MemoryChange> changes);

  const Stretch& stretch() const { return stretch_; }
  // Whether a period of the stretch begins with this change.
  bool begins_period(std::size_t change) const {
    return stretch_.period > 0 && change >= stretch_.begin && change < stretch_.end &&
           (change - stretch_.begin) % stretch_.period == 0;
  }
  // Where a buffer is allocated: the change, and the use of its task. Residents: kNever.
  struct Origin {
    std::size_t change = kNever;
    std::uint32_t use = 0;
  };
  const Origin& origin(std::uint32_t buffer) const { return origins_[buffer]; }
  // Whether other periods have a buffer in its place; if not it lives from before the stretch to its end.
  bool repeats(std::uint32_t buffer) const {
    const auto from = origins_[buffer].change;
    return from != kNever && (from >= stretch_.begin || freed_[buffer] < stretch_.end);
  }
  // The buffer in its place so many changes later.
  std::uint32_t shifted(std::uint32_t buffer, std::size_t by) const {
    const auto& from = origins_[buffer];
    return program_.uses[changes_[from.change + by].task][from.use].buffer;
  }

 private:
  std::vector<std::uint32_t> symbols();

  const graph::Program& program_;
  std::span<const timeline::MemoryChange> changes_;
  std::vector<Origin> origins_;
  std::vector<std::size_t> freed_;  // the change, by buffer
  Stretch stretch_;
};

}  // namespace rehearsal::answer
