// The operands of a task as byte ranges of its rank's buffers, wherever the buffers are, so that workers of a CPU and
// of a GPU agree. Kernels trust their pointers, so the extents of a task are checked against what its kernel accesses.
// All functions are pure; INVARIANT names the wrong task.
#pragma once
#include <array>
#include <cstddef>
#include <vector>

#include "base/kernels.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::cpu {

// A range of a buffer, in bytes.
struct Extent {
  BufferId buffer;
  std::size_t offset = 0, size = 0;
};

// The buffers that a task reads and writes, in the order in which its work names them.
std::vector<BufferId> operands_of(const graph::Program& program, LocalTask task);

// The operands of a kernel, each from its first element (offsets applied) to the last one accessed.
struct KernelOperands {
  std::array<Extent, kMostOperands> at{};
  std::size_t count = 0;
};
KernelOperands kernel_operands(const graph::TaskGraph& graph, RankId rank, LocalTask task);

// `in` and `out` as in dispatch::Transport::join; in place when the task names one buffer. `part` as in
// gpu::Communicator::collective: elements of one member's part (of the whole, in an all-reduce or a shift).
struct CollectiveOperands {
  Extent in, out;
  std::int64_t part = 0;
};
CollectiveOperands collective_operands(const graph::TaskGraph& graph, RankId rank, LocalTask task);

// Of a copy between tiers: the first bytes of both buffers, or the rank's own shard of the device's buffer.
struct CopyOperands {
  Extent from, to;
};
CopyOperands copy_operands(const graph::TaskGraph& graph, RankId rank, LocalTask task);

// Operands of a host step, in the order of graph::HostStep: the part of each that it accesses.
std::vector<Extent> host_operands(const graph::TaskGraph& graph, RankId rank, LocalTask task);

// The first buffer that a task names: all of it, or the part from a staging_copy's offset on.
Extent payload_of(const graph::TaskGraph& graph, RankId rank, LocalTask task);

}  // namespace rehearsal::cpu
