// The buffers of one rank, with the high-water mark of their sizes. Blocks that were freed are kept for the next buffer
// of the same size; they do not count.
//
// Fresh memory may be filled with bytes that read as NaN: a kernel that reads what nobody wrote then spoils the loss
// visibly. It takes time, which runs that are timed do not have.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "graph/task_graph.hpp"

namespace rehearsal::cpu {

inline constexpr int kNan = 0xff;  // four or eight of these bytes are a NaN

class Arena {
 public:
  // Borrows the program's list of buffers.
  Arena(std::span<const graph::Buffer> buffers, bool poison)
      : buffers_(buffers), poison_(poison), blocks_(buffers.size()) {}

  void allocate(BufferId id);  // throws std::bad_alloc
  void free(BufferId id);
  std::span<std::byte> bytes(BufferId id) const;
  std::span<float> floats(BufferId id) const;  // whole floats

  Bytes live() const { return live_; }
  Bytes peak() const { return peak_; }

 private:
  struct Freed {
    void operator()(std::byte* block) const;
  };
  using Block = std::unique_ptr<std::byte[], Freed>;
  Block take(std::size_t size);

  std::span<const graph::Buffer> buffers_;
  bool poison_;
  std::vector<Block> blocks_;                       // by BufferId; null when not live
  std::map<std::size_t, std::vector<Block>> kept_;  // by size
  Bytes live_, peak_;
};

}  // namespace rehearsal::cpu
