#include "answer/reserved_memory.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "timeline/memory.hpp"

namespace rehearsal::answer {
namespace {

using graph::Access;

// High-water mark of contiguous buffers, by category.
using Arenas = graph::MemoryByCategory;

class Replay {
  struct Block {
    CachingAllocator::Handle handle = 0;
    Bytes in_arena{};  // of a contiguous buffer, which has no handle
  };
  using Blocks = std::vector<Block>;

 public:
  // `arenas`: allocated once for contiguous buffers, before anything else.
  Replay(const graph::Program& program, const CachingAllocator::Options& options, const Arenas& arenas)
      : program_(program), allocator_(options), blocks_(program.buffers.size()) {
    for (const Bytes arena : arenas)
      if (arena > Bytes{}) allocator_.allocate(arena, 0);
    for (std::uint32_t b = 0; b < program.residents; b++)
      if (program.buffers[b].tier == Tier::device) allocate(blocks_[b], program.buffers[b], 0);
  }

  void begin(std::uint32_t task) {
    const std::uint32_t stream = program_.lane[task] == graph::Lane::data_comm ? 1 : 0;
    if (const auto& steps = steps_of(task); !steps.empty()) return perform(task, steps, stream);
    for (const graph::BufferUse& use : program_.uses[task])
      if (use.how() == Access::allocate) {
        const graph::Buffer& buffer = program_.buffers[use.buffer];
        if (buffer.tier != Tier::device) continue;  // not managed by this allocator
        allocate(blocks_[use.buffer], buffer, stream);
      }
  }
  void end(std::uint32_t task) {
    if (!steps_of(task).empty()) return;  // already performed at its beginning: its lane does nothing else meanwhile
    for (const graph::BufferUse& use : program_.uses[task])
      if (use.how() == Access::free) release(blocks_[use.buffer], program_.buffers[use.buffer]);
  }
  const Arenas& arenas() const { return most_; }
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
      const auto& buffer = program_.buffers[uses[step.use].buffer];
      auto& blocks = blocks_[uses[step.use].buffer];
      if (allocates)
        blocks.push_back(allocate(step.size, buffer, stream));
      else
        release(blocks[step.tensor], buffer);
    }
    for (const graph::BufferUse& use : uses)
      if (use.how() == Access::free) blocks_[use.buffer] = {};
  }
  void allocate(Blocks& blocks, const graph::Buffer& buffer, std::uint32_t stream) {
    if (buffer.tensors == 0) return blocks.push_back(allocate(buffer.size, buffer, stream));
    for (const Bytes each : program_.tensors[buffer.tensors]) blocks.push_back(allocate(each, buffer, stream));
  }
  void release(Blocks& blocks, const graph::Buffer& buffer) {  // in the order of allocation
    for (const auto& block : blocks) release(block, buffer);
    blocks.clear();
  }
  // The buffers of an arena have one kind and size, so it does not fragment, and any free slot is as good as another.
  Block allocate(Bytes size, const graph::Buffer& buffer, std::uint32_t stream) {
    if (!buffer.contiguous) return {allocator_.allocate(size, stream)};
    const auto kind = static_cast<std::size_t>(buffer.category);
    filled_[kind] += size, most_[kind] = std::max(most_[kind], filled_[kind]);
    return {.in_arena = size};
  }
  void release(const Block& block, const graph::Buffer& buffer) {
    if (buffer.contiguous)
      filled_[static_cast<std::size_t>(buffer.category)] -= block.in_arena;
    else
      allocator_.release(block.handle);
  }

  const graph::Program& program_;
  CachingAllocator allocator_;
  std::vector<Blocks> blocks_;  // of each buffer
  Arenas filled_{}, most_{};
  std::vector<CachingAllocator::Handle> within_;  // tensors that live within a task
};

}  // namespace

ReservedMemory reserved_memory(const graph::TaskGraph& graph, const timeline::Timeline& timeline, RankId rank,
                               const CachingAllocator::Options& options) {
  const auto& program = graph.program_of(graph.ranks()[rank.index()]);
  const auto changes = timeline::memory_changes(graph, timeline, rank);
  const auto replayed = [&](const Arenas& arenas) {
    Replay replay(program, options, arenas);
    for (const auto& change : changes) {
      if (change.begins) replay.begin(change.task);
      if (change.ends) replay.end(change.task);
    }
    return replay;
  };
  auto replay = replayed({});
  const bool arenas = std::any_of(replay.arenas().begin(), replay.arenas().end(), [](Bytes b) { return b > Bytes{}; });
  return (arenas ? replayed(replay.arenas()) : std::move(replay)).result();  // arenas: sized by a first replay
}

}  // namespace rehearsal::answer
