// The buffers of one rank, with the high-water mark of their sizes. Freed blocks are kept for the next buffer of the
// same size; they are not counted.
//
// Fresh memory may be filled with bytes that read as NaN: a kernel that reads unwritten memory then visibly spoils the
// loss. That takes time, so timed runs do not do it.
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
  // Keeps a reference to the program's list of buffers.
  Arena(std::span<const graph::Buffer> buffers, bool poison)
      : buffers_(buffers), poison_(poison), blocks_(buffers.size()) {}

  void allocate(BufferId id);  // throws std::bad_alloc
  void free(BufferId id);
  std::span<std::byte> bytes(BufferId id) const;
  std::span<float> floats(BufferId id) const;  // the length is a multiple of a float

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
