#include "answer/reserved_memory.hpp"

#include <algorithm>
#include <array>

#include "timeline/memory.hpp"

namespace rehearsal::answer {
namespace {

using graph::Access;
using graph::MemoryCategory;

class Replay {
  using Blocks = std::vector<CachingAllocator::Handle>;

 public:
  Replay(const graph::Program& program, const CachingAllocator::Options& options)
      : program_(program), allocator_(options), blocks_(program.buffers.size()) {
    for (std::uint32_t b = 0; b < program.residents; b++)
      allocate(blocks_[b], program.buffers[b].size, program.buffers[b].tensors, 0);
  }

  void begin(std::uint32_t task) {
    const std::uint32_t stream = program_.lane[task] == graph::Lane::data_comm ? 1 : 0;
    if (const auto& steps = steps_of(task); !steps.empty()) return perform(task, steps, stream);
    for (const bool gradients : {false, true})
      for (const graph::BufferUse& use : program_.uses[task])
        if (use.how() == Access::allocate && is_gradient(use) == gradients) {
          const graph::Buffer& buffer = program_.buffers[use.buffer];
          allocate(blocks_[use.buffer], buffer.size, buffer.tensors, stream);
        }
  }
  void end(std::uint32_t task) {
    if (!steps_of(task).empty()) return;  // done with at its beginning: its lane does nothing else meanwhile
    for (const graph::BufferUse& use : program_.uses[task])
      if (use.how() == Access::free) release(blocks_[use.buffer]);
  }
  ReservedMemory result() const {
    return {allocator_.peak_allocated(), allocator_.peak_reserved(), allocator_.retries(), allocator_.failures() > 0};
  }

 private:
  bool is_gradient(const graph::BufferUse& use) const {
    const auto category = program_.buffers[use.buffer].category;
    return category == MemoryCategory::communication || category == MemoryCategory::gradients;
  }
  const std::vector<graph::AllocationStep>& steps_of(std::uint32_t task) const {
    return program_.allocations[program_.allocation.empty() ? 0 : program_.allocation[task]];
  }
  void perform(std::uint32_t task, const std::vector<graph::AllocationStep>& steps, std::uint32_t stream) {
    const auto uses = program_.uses[task];
    for (const auto& step : steps) {
      const bool within = step.use >= graph::AllocationStep::kWithin;
      auto& blocks = within ? within_[step.use - graph::AllocationStep::kWithin] : blocks_[uses[step.use].buffer];
      if (step.allocates)
        allocate(blocks, step.size, step.tensors, stream);
      else if (within)
        release(blocks);
      else
        for (std::uint32_t b = step.first; b < step.last; b++) allocator_.release(blocks[b]);
    }
    for (const graph::BufferUse& use : uses)
      if (use.how() == Access::free) blocks_[use.buffer] = {};
  }
  void allocate(Blocks& blocks, Bytes size, std::uint32_t tensors, std::uint32_t stream) {
    if (tensors == 0) return blocks.push_back(allocator_.allocate(size, stream));
    for (const Bytes each : program_.tensors[tensors]) blocks.push_back(allocator_.allocate(each, stream));
  }
  void release(Blocks& blocks) {  // in the order of their making
    for (const auto block : blocks) allocator_.release(block);
    blocks.clear();
  }

  const graph::Program& program_;
  CachingAllocator allocator_;
  std::vector<Blocks> blocks_;     // of each buffer
  std::array<Blocks, 16> within_;  // of a task that stands for several
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

}  // namespace rehearsal::answer
