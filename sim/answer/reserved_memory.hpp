// The memory that a framework's allocator reserves for one rank: its buffers, split into tensors, are replayed through
// the model of that allocator in the order of the timeline.
//
// Order. A task allocates when it starts and frees when it ends, as in timeline/memory.hpp; within a task, results come
// before the gradients of parameters. Tasks of the data lane allocate on a separate stream, as FSDP's collectives do.
// Contiguous buffers (graph::Buffer) are slots of one block per kind, which is allocated first and sized to the kind's
// high-water mark. A fused task does what its tasks would do, step by step, so that every detail reserves the
// same memory.
#pragma once
#include "answer/caching_allocator.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::answer {

struct ReservedMemory {
  Bytes allocated;  // peak of live blocks, rounded as the allocator does
  Bytes reserved;   // peak of segments
  std::uint32_t retries = 0;
  bool out_of_memory = false;  // even after a retry
  friend bool operator==(const ReservedMemory&, const ReservedMemory&) = default;
};

// Stretches that repeat themselves are replayed until a state comes again (memory_pattern.hpp), or `whole`, for tests:
// the result is the same.
ReservedMemory reserved_memory(const graph::TaskGraph& graph, const timeline::Timeline& timeline, RankId rank,
                               const CachingAllocator::Options& options, bool whole = false);

}  // namespace rehearsal::answer
