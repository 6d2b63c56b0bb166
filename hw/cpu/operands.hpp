// What a task works on, as ranges of bytes of its rank's buffers: the same wherever the buffers lie, so that workers of
// a CPU and of a GPU agree. Kernels trust their pointers: what a task names is held against what its kernel touches.
// All functions are pure; INVARIANT names the task that is wrong.
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

bool uses_data(KernelKind kind);  // tokens, targets or rows of a micro-batch
bool adds_loss(KernelKind kind);  // its last operand is the loss
bool is_optimizer(KernelKind kind);

// The operands of a kernel, each from its first element (offsets applied) to the last one that it touches.
struct KernelOperands {
  std::array<Extent, kMostOperands> at{};
  std::size_t count = 0;
};
KernelOperands kernel_operands(const graph::TaskGraph& graph, RankId rank, LocalTask task);

// `in` and `out` as in dispatch::Transport::join; in place where the task names one buffer. `part` as in
// gpu::Communicator::collective: elements of one member's part (of the whole, in an
// all-reduce or a shift).
struct CollectiveOperands {
  Extent in, out;
  std::int64_t part = 0;
};
CollectiveOperands collective_operands(const graph::TaskGraph& graph, RankId rank, LocalTask task);

// Of a copy between tiers: the first bytes of both buffers, or of the one on the device the rank's own shard.
struct CopyOperands {
  Extent from, to;
};
CopyOperands copy_operands(const graph::TaskGraph& graph, RankId rank, LocalTask task);

// Of a step of the host, in the order of graph::HostStep: as much as it touches of each.
std::vector<Extent> host_operands(const graph::TaskGraph& graph, RankId rank, LocalTask task);

// The first buffer that a task names: all of it, or from where a staging_copy begins.
Extent payload_of(const graph::TaskGraph& graph, RankId rank, LocalTask task);

}  // namespace rehearsal::cpu
