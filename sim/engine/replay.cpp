// Longest-path relaxation without a queue: one cursor per rank walks its tasks in id order and stops where it needs
// another rank that is not there yet; that rank wakes it. Every task is visited once, O(ranks + rounds) state.
//
// It can be stuck although the graph has no cycle: a rank that waits at a receive does not look at later tasks of other
// lanes, which the far end may need first. The event evaluator has no such limit.
#include <algorithm>

#include "engine/prepared.hpp"

namespace rehearsal::engine {
namespace {

constexpr std::uint64_t kRunnable = UINT64_MAX;
constexpr std::uint64_t kInGroup = UINT64_MAX - 1;

class Replay {
 public:
  Replay(const Prepared& graph, std::span<const Time> durations, Timeline& timeline)
      : graph_(graph),
        durations_(durations),
        start_(timeline.start.data()),
        end_(timeline.end.data()),
        ranks_(graph.ranks().size()),
        arrived_(graph.rounds(), 0) {}

  Outcome run() {
    for (std::uint32_t r = static_cast<std::uint32_t>(ranks_.size()); r-- > 0;) runnable_.push_back(r);
    while (!runnable_.empty()) {
      const std::uint32_t r = runnable_.back();
      runnable_.pop_back();
      advance(r);
    }
    Outcome outcome{makespan_, {}};
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].cursor < graph_.ranks()[r].steps.size())
        outcome.stuck.push_back(TaskId(graph_.ranks()[r].first_task + ranks_[r].cursor));
    return outcome;
  }

 private:
  struct RankState {
    std::array<Time, graph::kLanes> free{};  // when the lane may start its next task
    std::uint64_t waits_for = kRunnable;     // the send it stopped for, or kInGroup
    std::uint32_t cursor = 0;
  };

  Time ready(const RankView& view, const Step& step, std::uint32_t i, Time at) const {
    const Time* end = end_ + view.first_task;
    if (step.waits == Waits::one) return std::max(at, end[step.dependency]);
    if (step.waits == Waits::many)
      for (LocalTask before : view.program->dependencies[i]) at = std::max(at, end[before.index()]);
    return at;
  }

  void wake(std::uint32_t rank) {
    ranks_[rank].waits_for = kRunnable;
    runnable_.push_back(rank);
  }

  // Walks one rank until it has to wait or is done.
  void advance(std::uint32_t r) {
    const RankView& view = graph_.ranks()[r];
    RankState& mine = ranks_[r];
    Time* const start = start_ + view.first_task;
    Time* const end = end_ + view.first_task;
    const auto n = static_cast<std::uint32_t>(view.steps.size());
    for (std::uint32_t i = mine.cursor; i < n; ++i) {
      const Step& step = view.steps[i];
      Time& free = mine.free[static_cast<std::size_t>(step.lane)];
      const Time at = ready(view, step, i, free);
      switch (step.kind) {
        case Kind::plain:
        case Kind::send:
          start[i] = at;
          end[i] = at + durations_[step.work];
          break;
        case Kind::receive: {
          const FarEnd& far = view.ends[step.endpoint];
          const std::uint64_t send = far.base + far.tasks[step.sequence].value;
          if (end_[send] == kNever) {
            mine.cursor = i;
            mine.waits_for = send;
            return;
          }
          start[i] = end[i] = std::max(at, end_[send]);
          break;
        }
        case Kind::group:
          // Set already when this rank was woken by the last member.
          if (end[i] == kNever && !join(view.ends[step.endpoint], step, start[i] = at)) {
            mine.cursor = i;
            mine.waits_for = kInGroup;
            return;
          }
          break;
      }
      makespan_ = std::max(makespan_, end[i]);
      free = is_serial(step.lane) ? end[i] : start[i];
      if (step.kind == Kind::send) {
        const std::uint32_t peer = view.ends[step.endpoint].peer;
        if (ranks_[peer].waits_for == view.first_task + i) wake(peer);
      }
    }
    mine.cursor = n;
  }

  // True when this was the last member: then all of them have their times, and the others run on.
  bool join(const FarEnd& round, const Step& step, Time at) {
    const graph::Group& group = graph_.graph().groups()[round.peer];
    if (++arrived_[round.base + step.sequence] < group.members.size()) return false;
    auto task = [&](const graph::GroupMember& m) {
      return graph_.ranks()[m.rank.index()].first_task + graph_.member_task(m, step.sequence).value;
    };
    for (const graph::GroupMember& m : group.members) at = std::max(at, start_[task(m)]);
    for (const graph::GroupMember& m : group.members) {
      start_[task(m)] = at;
      end_[task(m)] = at + durations_[step.work];
      if (ranks_[m.rank.index()].waits_for == kInGroup) wake(m.rank.value);
    }
    return true;
  }

  const Prepared& graph_;
  std::span<const Time> durations_;
  Time* start_;
  Time* end_;
  std::vector<RankState> ranks_;
  std::vector<std::uint32_t> arrived_;  // members per round
  std::vector<std::uint32_t> runnable_;
  Time makespan_;
};

}  // namespace

Outcome replay(const Prepared& graph, std::span<const Time> durations, Timeline& timeline) {
  return Replay(graph, durations, timeline).run();
}

}  // namespace rehearsal::engine
