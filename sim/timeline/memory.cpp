#include "timeline/memory.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::timeline {
namespace {

using graph::Access;
using graph::MemoryCategory;

Bytes transient(const graph::Program& program, std::uint32_t task) {
  return program.transient.empty() ? Bytes{} : program.transient[task];
}

// `transient` counts from the level that the task leaves behind, and is the truth where it is given. More than what the
// task frees comes on top of its buffers; less means that it frees as it goes, before its last allocation.
Bytes beyond_buffers(const graph::Program& program, std::uint32_t task) {
  if (transient(program, task) == Bytes{}) return {};
  Bytes freed;
  for (const graph::BufferUse& use : program.uses[task])
    if (use.how() == Access::free) freed += program.buffers[use.id().index()].size;
  return transient(program, task) - freed;
}

// Goes through the allocations and frees of one rank in order of time and shows every level.
class Replay {
 public:
  Replay(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank)
      : program_(graph.program_of(graph.ranks()[rank.index()])), changes_(memory_changes(graph, timeline, rank)) {
    for (const graph::Buffer& buffer : program_.resident()) change(buffer.category, buffer.size);
  }

  const MemoryByCategory& live() const { return live_; }
  Bytes level() const { return level_; }

  template <class Visit>  // visit(Time): after every task start and end that changes something
  void run(Visit visit) {
    visit(Time{});
    for (const MemoryChange& at : changes_) {
      if (at.begins) begin(at.task), visit(at.when);
      if (at.ends) end(at.task), visit(at.when);
    }
  }

 private:
  void change(MemoryCategory category, Bytes by) {
    live_[static_cast<std::size_t>(category)] += by;
    level_ += by;
  }

  // Below the buffers: at its highest point the task has already freed the first of what it frees, in the order of its
  // uses, and, where that is not enough, not yet made the last of what it leaves behind.
  void inside(std::uint32_t task, bool begins) {
    const Bytes beyond = beyond_buffers(program_, task);
    if (beyond >= Bytes{}) return change(MemoryCategory::workspace, begins ? beyond : -beyond);
    Bytes missing = -beyond;
    const auto uses = program_.uses[task];
    const auto has = [&](BufferId id, Access how) {
      return std::any_of(uses.begin(), uses.end(), [&](const auto& use) { return use.id() == id && use.how() == how; });
    };
    const auto charge = [&](const graph::BufferUse& use, Access how, Access opposite) {
      if (missing == Bytes{} || use.how() != how || has(use.id(), opposite)) return;
      const graph::Buffer& buffer = program_.buffers[use.id().index()];
      const Bytes part = std::min(missing, buffer.size);
      change(buffer.category, begins ? -part : part);
      missing -= part;
    };
    for (const auto& use : uses) charge(use, Access::free, Access::allocate);
    for (std::size_t i = uses.size(); i-- > 0;) charge(uses[i], Access::allocate, Access::free);
    INVARIANT(missing == Bytes{}, "a task's highest point is below what it keeps throughout");
  }

  void begin(std::uint32_t task) {
    for (const graph::BufferUse& use : program_.uses[task]) {
      const graph::Buffer& buffer = program_.buffers[use.id().index()];
      if (use.how() == Access::allocate) change(buffer.category, buffer.size);
    }
    inside(task, true);
  }

  void end(std::uint32_t task) {
    inside(task, false);
    for (const graph::BufferUse& use : program_.uses[task]) {
      const graph::Buffer& buffer = program_.buffers[use.id().index()];
      if (use.how() == Access::free) change(buffer.category, -buffer.size);
    }
  }

  const graph::Program& program_;
  const std::vector<MemoryChange> changes_;
  MemoryByCategory live_{};
  Bytes level_;
};

}  // namespace

std::vector<MemoryChange> memory_changes(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank) {
  const auto& at = graph.ranks()[rank.index()];
  const auto& program = graph.program_of(at);
  const Time* start = timeline.start.data() + at.first_task;
  const Time* end = timeline.end.data() + at.first_task;
  std::vector<MemoryChange> changes;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.uses[i].empty() && transient(program, i) == Bytes{}) continue;
    const bool instant = start[i] == end[i];
    changes.push_back({start[i], true, i, instant});
    if (!instant) changes.push_back({end[i], false, i, true});
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

MemoryPeak memory_peak(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank) {
  MemoryPeak peak;
  Replay replay(graph, timeline, rank);
  peak.resident = peak.at_peak = replay.live();
  peak.peak = replay.level();
  replay.run([&](Time when) {
    if (replay.level() <= peak.peak) return;
    peak.peak = replay.level();
    peak.at_peak = replay.live();
    peak.when = when;
  });
  return peak;
}

std::vector<MemoryPoint> memory_curve(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank) {
  std::vector<MemoryPoint> curve;
  Replay replay(graph, timeline, rank);
  replay.run([&](Time when) {
    if (curve.empty() || curve.back().level != replay.level()) curve.push_back({when, replay.level(), replay.live()});
  });
  return curve;
}

}  // namespace rehearsal::timeline
