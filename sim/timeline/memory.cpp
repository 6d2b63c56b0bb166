#include "timeline/memory.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::timeline {
namespace {

using graph::Access;
using graph::MemoryCategory;

// Goes through the allocations and frees of one rank in order of time and shows every level.
//
// At one instant: first the ends of tasks that began earlier, then task by task in id order (a topological order) the
// starts, each with its own end when it takes no time. So a buffer freed at t makes room for one allocated at t.
class Replay {
 public:
  Replay(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank)
      : program_(graph.program_of(graph.ranks()[rank.index()])),
        start_(timeline.start.data() + graph.ranks()[rank.index()].first_task),
        end_(timeline.end.data() + graph.ranks()[rank.index()].first_task) {
    for (const graph::Buffer& buffer : program_.resident()) change(buffer.category, buffer.size);
  }

  const MemoryByCategory& live() const { return live_; }
  Bytes level() const { return level_; }

  template <class Visit>  // visit(Time): after every task start and end that changes something
  void run(Visit visit) {
    visit(Time{});
    std::vector<Change> changes;
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      if (program_.uses[i].empty() && transient(i) == Bytes{}) continue;
      changes.push_back({start_[i], true, i});
      if (start_[i] < end_[i]) changes.push_back({end_[i], false, i});
    }
    std::sort(changes.begin(), changes.end());
    for (const Change& at : changes) {
      if (at.start) {
        begin(at.task);
        visit(at.when);
      }
      if (!at.start || start_[at.task] == end_[at.task]) {
        end(at.task);
        visit(at.when);
      }
    }
  }

 private:
  struct Change {
    Time when;
    bool start;  // ends of earlier tasks come first
    std::uint32_t task;
    auto operator<=>(const Change&) const = default;
  };

  Bytes transient(std::uint32_t task) const { return program_.transient.empty() ? Bytes{} : program_.transient[task]; }

  void change(MemoryCategory category, Bytes by) {
    live_[static_cast<std::size_t>(category)] += by;
    level_ += by;
  }

  // `transient` counts from the level that the task leaves behind, and is the truth where it is given. More than what
  // the task frees comes on top of its buffers; less means that it frees as it goes, before its last allocation.
  Bytes beyond_buffers(std::uint32_t task) const {
    if (transient(task) == Bytes{}) return {};
    Bytes freed;
    for (const graph::BufferUse& use : program_.uses[task])
      if (use.how() == Access::free) freed += program_.buffers[use.id().index()].size;
    return transient(task) - freed;
  }
  void inside(Bytes beyond, bool begins) {
    const auto category = beyond > Bytes{} ? MemoryCategory::workspace : MemoryCategory::activations;
    change(category, begins ? beyond : -beyond);
  }

  void begin(std::uint32_t task) {
    for (const graph::BufferUse& use : program_.uses[task]) {
      const graph::Buffer& buffer = program_.buffers[use.id().index()];
      if (use.how() == Access::allocate) change(buffer.category, buffer.size);
    }
    inside(beyond_buffers(task), true);
  }

  void end(std::uint32_t task) {
    inside(beyond_buffers(task), false);
    for (const graph::BufferUse& use : program_.uses[task]) {
      const graph::Buffer& buffer = program_.buffers[use.id().index()];
      if (use.how() == Access::free) change(buffer.category, -buffer.size);
    }
  }

  const graph::Program& program_;
  const Time* start_;
  const Time* end_;
  MemoryByCategory live_{};
  Bytes level_;
};

}  // namespace

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
    if (curve.empty() || curve.back().level != replay.level()) curve.push_back({when, replay.level()});
  });
  return curve;
}

}  // namespace rehearsal::timeline
