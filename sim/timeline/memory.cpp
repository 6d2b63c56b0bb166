#include "timeline/memory.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::timeline {
namespace {

using graph::Access;
using graph::MemoryCategory;

// Goes through the allocations and frees of one rank in order of time and shows every level.
class Replay {
 public:
  Replay(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank, Tier tier)
      : program_(graph.program_of(graph.ranks()[rank.index()])),
        tier_(tier),
        changes_(memory_changes(graph, timeline, rank)) {
    for (const graph::Buffer& buffer : program_.resident()) change(buffer, buffer.size);
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
  void change(const graph::Buffer& buffer, Bytes by) {
    if (buffer.tier == tier_) change(buffer.category, by);
  }
  void change(MemoryCategory category, Bytes by) {
    live_[static_cast<std::size_t>(category)] += by;
    level_ += by;
  }

  // Below the buffers.
  void inside(std::uint32_t task, bool begins) {
    if (tier_ != Tier::device || program_.fold.empty() || program_.fold[task] == 0) return;
    const auto& highest = program_.fold_of(task).highest;
    for (std::size_t c = 0; c < highest.size(); ++c)
      change(static_cast<MemoryCategory>(c), begins ? highest[c] : -highest[c]);
  }

  void begin(std::uint32_t task) {
    for (const graph::BufferUse& use : program_.uses[task]) {
      const graph::Buffer& buffer = program_.buffers[use.id().index()];
      if (use.how() == Access::allocate) change(buffer, buffer.size);
    }
    inside(task, true);
  }

  void end(std::uint32_t task) {
    inside(task, false);
    for (const graph::BufferUse& use : program_.uses[task]) {
      const graph::Buffer& buffer = program_.buffers[use.id().index()];
      if (use.how() == Access::free) change(buffer, -buffer.size);
    }
  }

  const graph::Program& program_;
  const Tier tier_;
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
    if (program.uses[i].empty() && (program.fold.empty() || program.fold[i] == 0)) continue;
    const bool instant = start[i] == end[i];
    changes.push_back({start[i], true, i, instant});
    if (!instant) changes.push_back({end[i], false, i, true});
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

MemoryPeak memory_peak(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank, Tier tier) {
  MemoryPeak peak;
  Replay replay(graph, timeline, rank, tier);
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

std::vector<MemoryPoint> memory_curve(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank, Tier tier) {
  std::vector<MemoryPoint> curve;
  Replay replay(graph, timeline, rank, tier);
  replay.run([&](Time when) {
    if (curve.empty() || curve.back().level != replay.level()) curve.push_back({when, replay.level(), replay.live()});
  });
  return curve;
}

}  // namespace rehearsal::timeline
