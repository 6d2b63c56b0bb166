// What a member of a group brings to a collective.
#pragma once
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace rehearsal::dispatch {

// Bytes of an all-to-all's blocks, by member; empty: all are alike. What one sends is what the other receives.
struct Blocks {
  std::vector<std::size_t> to, from;
  bool empty() const { return to.empty(); }
  std::size_t sent() const { return std::accumulate(to.begin(), to.end(), std::size_t{0}); }
  std::size_t received() const { return std::accumulate(from.begin(), from.end(), std::size_t{0}); }
};

// As in NCCL. All-gather: own part in, all parts out. Reduce-scatter: all parts in, own sum out. All-reduce: equal
// lengths. All-to-all: one block to every member in, one block from every member out, in another buffer. Shift: own
// buffer in, the previous member's out, of equal length. In place: `in` and `out` overlap exactly as NCCL allows.
struct Operands {
  std::span<const std::byte> in;
  std::span<std::byte> out;
  const Blocks* blocks = nullptr;  // null: all are alike
};

}  // namespace rehearsal::dispatch
