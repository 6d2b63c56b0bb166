#include "answer/reserved_memory.hpp"

#include <vector>

#include "timeline/memory.hpp"

namespace rehearsal::answer {
namespace {

using graph::Access;

class Replay {
  using Blocks = std::vector<CachingAllocator::Handle>;

 public:
  Replay(const graph::Program& program, const CachingAllocator::Options& options)
      : program_(program), allocator_(options), blocks_(program.buffers.size()) {
    for (std::uint32_t b = 0; b < program.residents; b++)
      if (program.buffers[b].tier == Tier::device)
        allocate(blocks_[b], program.buffers[b].size, program.buffers[b].tensors, 0);
  }

  void begin(std::uint32_t task) {
    const std::uint32_t stream = program_.lane[task] == graph::Lane::data_comm ? 1 : 0;
    if (const auto& steps = steps_of(task); !steps.empty()) return perform(task, steps, stream);
    for (const graph::BufferUse& use : program_.uses[task])
      if (use.how() == Access::allocate) {
        const graph::Buffer& buffer = program_.buffers[use.buffer];
        if (buffer.tier != Tier::device) continue;  // of another allocator
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
  const std::vector<graph::AllocationStep>& steps_of(std::uint32_t task) const { return program_.fold_of(task).steps; }
  void perform(std::uint32_t task, const std::vector<graph::AllocationStep>& steps, std::uint32_t stream) {
    using graph::AllocationStep;
    const auto uses = program_.uses[task];
    for (const auto& step : steps) {
      const bool allocates = step.size > Bytes{};
      if (step.use >= AllocationStep::kWithin) {
        const auto slot = step.use - AllocationStep::kWithin;
        if (slot >= within_.size()) within_.resize(slot + 1);
        if (allocates)
          within_[slot] = allocator_.allocate(step.size, stream);
        else
          allocator_.release(within_[slot]);
        continue;
      }
      auto& blocks = blocks_[uses[step.use].buffer];
      if (allocates)
        blocks.push_back(allocator_.allocate(step.size, stream));
      else
        allocator_.release(blocks[step.tensor]);
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
  std::vector<Blocks> blocks_;                    // of each buffer
  std::vector<CachingAllocator::Handle> within_;  // tensors that live within a task
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
