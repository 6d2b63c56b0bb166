#include "engine/reserved_memory.hpp"

#include <algorithm>

#include "timeline/memory.hpp"

namespace rehearsal::engine {
namespace {

using graph::Access;
using graph::MemoryCategory;

class Replay {
 public:
  Replay(const graph::Program& program, const CachingAllocator::Options& options)
      : program_(program), allocator_(options), blocks_(program.buffers.size()) {
    for (std::uint32_t b = 0; b < program.residents; b++) allocate(b, 0);
  }

  void begin(std::uint32_t task) {
    const std::uint32_t stream = program_.lane[task] == graph::Lane::data_comm ? 1 : 0;
    free_early(task);
    for (const bool gradients : {false, true})
      for (const graph::BufferUse& use : program_.uses[task])
        if (use.how() == Access::allocate && is_gradient(use) == gradients) allocate(use.buffer, stream);
  }
  void end(std::uint32_t task) {
    for (const graph::BufferUse& use : program_.uses[task])
      if (use.how() == Access::free) release(use.buffer);
  }
  ReservedMemory result() const {
    return {allocator_.peak_allocated(), allocator_.peak_reserved(), allocator_.retries(), allocator_.failures() > 0};
  }

 private:
  bool is_gradient(const graph::BufferUse& use) const {
    const auto category = program_.buffers[use.buffer].category;
    return category == MemoryCategory::communication || category == MemoryCategory::gradients;
  }
  void allocate(std::uint32_t buffer, std::uint32_t stream) {
    const graph::Buffer& b = program_.buffers[buffer];
    auto& blocks = blocks_[buffer];
    if (b.tensors == 0) {
      blocks.push_back(allocator_.allocate(b.size, stream));
      return;
    }
    const graph::TensorList& list = program_.tensors[b.tensors];
    for (const auto& sizes : list.before) {
      allocate(blocks, sizes, stream);
      release(buffer);
    }
    allocate(blocks, list.sizes, stream);
  }
  void allocate(std::vector<CachingAllocator::Handle>& blocks, const std::vector<Bytes>& sizes, std::uint32_t stream) {
    for (const Bytes size : sizes) blocks.push_back(allocator_.allocate(size, stream));
  }
  void release(std::uint32_t buffer) {  // in the order of their making; nothing where it was freed early
    for (const auto block : blocks_[buffer]) allocator_.release(block);
    blocks_[buffer].clear();
  }
  void free_early(std::uint32_t task) {
    Bytes early = timeline::freed_before_peak(program_, task);
    if (early == Bytes{}) return;
    for (const graph::BufferUse& use : program_.uses[task]) {
      if (use.how() != Access::free || blocks_[use.buffer].empty()) continue;
      const Bytes size = program_.buffers[use.buffer].size;
      if (size > early) break;
      release(use.buffer);
      early -= size;
    }
  }

  const graph::Program& program_;
  CachingAllocator allocator_;
  std::vector<std::vector<CachingAllocator::Handle>> blocks_;  // of each buffer
};

}  // namespace

ReservedMemory reserved_memory(const graph::TaskGraph& graph, const timeline::Timeline& timeline, RankId rank,
                               const CachingAllocator::Options& options) {
  Replay replay(graph.program_of(graph.ranks()[rank.index()]), options);
  for (const auto& change : timeline::memory_changes(graph, timeline, rank)) {
    if (change.begins) replay.begin(change.task);
    if (change.ends) replay.end(change.task);
  }
  return replay.result();
}

}  // namespace rehearsal::engine
