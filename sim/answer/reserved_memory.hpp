// What the allocator of a framework reserves for one rank: its buffers, as the tensors they consist of, replayed
// through the model of that allocator in the order of the timeline.
//
// Order. A task allocates when it starts and frees when it ends, as in timeline/memory.hpp; within a task results come
// before the gradients of parameters. Tasks of the data lane allocate on a stream of their own, as FSDP's collectives
// do. Contiguous buffers (graph::Buffer) are slots of one block for each kind of them, which is allocated before all
// else and as large as they are together at their most. A task that stands for several does what they would do, step by
// step, so that every detail reserves the same.
#pragma once
#include "answer/caching_allocator.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::answer {

struct ReservedMemory {
  Bytes allocated;  // peak of live blocks, rounded as the allocator does
  Bytes reserved;   // peak of segments
  std::uint32_t retries = 0;
  bool out_of_memory = false;  // even after a retry
};

ReservedMemory reserved_memory(const graph::TaskGraph& graph, const timeline::Timeline& timeline, RankId rank,
                               const CachingAllocator::Options& options);

}  // namespace rehearsal::answer
