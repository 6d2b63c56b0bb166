#include "answer/reserved_memory.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "answer/memory_pattern.hpp"
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

  // At the beginning of a period: the first change that is still to be replayed, which is a later one if everything is
  // as it was some periods ago.
  std::size_t skip(std::size_t change, const MemoryPattern& pattern) {
    if (seen_.size() == kMostSeen) return change;
    const auto now = state(change, pattern);
    if (!now) return change;
    const auto before = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& seen) { return seen.state == *now; });
    if (before == seen_.end()) {
      seen_.push_back({change, *now, allocator_.retries(), allocator_.failures()});
      return change;
    }
    const auto cycle = change - before->change;
    const auto cycles = (pattern.stretch().end - change) / cycle;
    std::vector<std::pair<std::uint32_t, Blocks>> later;
    for (std::uint32_t b = 0; b < blocks_.size(); ++b)
      if (!blocks_[b].empty() && pattern.repeats(b))
        later.emplace_back(pattern.shifted(b, cycles * cycle), std::exchange(blocks_[b], {}));
    for (auto& [buffer, blocks] : later) blocks_[buffer] = std::move(blocks);
    const auto times = static_cast<std::uint32_t>(cycles);
    allocator_.count(times * (allocator_.retries() - before->retries),
                     times * (allocator_.failures() - before->failures));
    seen_.clear();
    return change + cycles * cycle;
  }

  ReservedMemory result() const {
    return {allocator_.peak_allocated(), allocator_.peak_reserved(), allocator_.retries(), allocator_.failures() > 0};
  }

 private:
  // The allocator, and where it holds what of which buffer: those of a period by their age. Nothing while buffers live
  // that have no counterpart in a later period.
  std::optional<Fingerprint> state(std::size_t change, const MemoryPattern& pattern) const {
    auto all = allocator_.state();
    for (const Bytes filled : filled_) all.add(std::uint64_t(filled.count()));
    Fingerprint live;
    for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].empty()) continue;
      const auto [from, use] = pattern.origin(b);
      const bool repeats = pattern.repeats(b), contiguous = program_.buffers[b].contiguous;
      if (repeats && from < pattern.stretch().begin) return std::nullopt;
      Fingerprint one;
      one.add(repeats), one.add(repeats ? change - from : b), one.add(repeats ? use : 0);
      for (const auto& block : blocks_[b])
        one.add(std::uint64_t(contiguous ? -block.in_arena.count() : allocator_.address(block.handle)));
      live.add_member(one);
    }
    all.add_member(live);
    return all;
  }

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

  // Deep pipelines come back to a state only after as many micro-batches as they hold, some never.
  static constexpr std::size_t kMostSeen = 32;
  struct Seen {
    std::size_t change;
    Fingerprint state;
    std::uint32_t retries, failures;
  };
  std::vector<Seen> seen_;
};

}  // namespace

ReservedMemory reserved_memory(const graph::TaskGraph& graph, const timeline::Timeline& timeline, RankId rank,
                               const CachingAllocator::Options& options, bool whole) {
  const auto& program = graph.program_of(graph.ranks()[rank.index()]);
  const auto changes = timeline::memory_changes(graph, timeline, rank);
  const MemoryPattern pattern(program, changes);
  const auto replayed = [&](const Arenas& arenas) {
    Replay replay(program, options, arenas);
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (!whole && pattern.begins_period(i) && (i = replay.skip(i, pattern)) == changes.size()) break;
      if (changes[i].begins) replay.begin(changes[i].task);
      if (changes[i].ends) replay.end(changes[i].task);
    }
    return replay;
  };
  auto replay = replayed({});
  const bool arenas = std::any_of(replay.arenas().begin(), replay.arenas().end(), [](Bytes b) { return b > Bytes{}; });
  return (arenas ? replayed(replay.arenas()) : std::move(replay)).result();  // arenas: sized by a first replay
}

}  // namespace rehearsal::answer
