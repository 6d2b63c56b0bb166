// Longest-path relaxation without a queue: one cursor per rank walks its tasks in id order and stops where it needs a
// rank that is behind; that rank wakes it. Every task is visited once, O(ranks + rounds) state.
//
// It can be stuck although the graph has no cycle: a rank that waits at a receive does not look at later tasks of other
// lanes, which the far end may need first. The event evaluator has no such limit.
#include <algorithm>
#include <utility>

#include "base/stopping.hpp"
#include "engine/prepared.hpp"

namespace rehearsal::engine {
namespace {

// Messages in flight in one channel: a ring buffer that doubles when it is full. Sends are evaluated in the order of
// the channel and so are receives, so the k-th meets the k-th by itself.
class Channel {
 public:
  bool receiver_waits = false;

  bool empty() const { return first_ == last_; }
  void push(Time arrival) {
    if (last_ - first_ == ring_.size()) grow();
    ring_[last_++ & mask_] = arrival;
  }
  Time pop() { return ring_[first_++ & mask_]; }

 private:
  void grow() {
    std::vector<Time> larger(std::max<std::size_t>(4, 2 * ring_.size()));
    const auto mask = static_cast<std::uint32_t>(larger.size() - 1);
    for (std::uint32_t i = first_; i != last_; ++i) larger[i & mask] = ring_[i & mask_];
    ring_ = std::move(larger);
    mask_ = mask;
  }
  std::uint32_t mask_ = 0;
  std::uint32_t first_ = 0, last_ = 0;  // count all messages; they wrap around together
  std::vector<Time> ring_;
};

class Replay {
 public:
  Replay(const Prepared& graph, Prices prices, Timeline& timeline)
      : graph_(graph),
        durations_(prices.durations),
        held_(prices.held),
        start_(timeline.start.data()),
        end_(timeline.end.data()),
        ranks_(graph.ranks().size()),
        channels_(graph.channels()),
        arrived_(graph.rounds(), 0) {}

  Outcome run() {
    for (std::uint32_t r = static_cast<std::uint32_t>(ranks_.size()); r-- > 0;) runnable_.push_back(r);
    for (LooksUp looks(256); !runnable_.empty(); looks.step()) {
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
    std::array<Time, graph::kLanes> free{};  // when the lane of each slot may start its next task
    std::uint32_t cursor = 0;
    bool in_group = false;  // stopped there for the other members
  };

  // The end of the dependencies that lane order does not imply.
  static Time dependencies_end(const RankView& view, const Step& step, std::uint32_t i, const Time* ends) {
    if (step.dependency == kNone) return Time{};
    if (step.dependency != kMany) return ends[step.dependency];
    Time latest;
    for (LocalTask before : view.program->dependencies[i]) latest = std::max(latest, ends[before.index()]);
    return latest;
  }

  // Walks one rank until it has to wait or is done.
  void advance(std::uint32_t r) {
    const RankView& view = graph_.ranks()[r];
    const Step* const steps = view.steps.data();
    const auto n = static_cast<std::uint32_t>(view.steps.size());
    Time* const starts = start_ + view.first_task;
    Time* const ends = end_ + view.first_task;
    RankState& mine = ranks_[r];
    Time latest = makespan_;
    std::uint32_t i = mine.cursor;
    for (; i < n; ++i) {
      const Step& step = steps[i];
      Time& free = mine.free[step.slot];
      Time start = std::max(free, dependencies_end(view, step, i, ends)), end, held;
      if (step.kind == Kind::receive) {
        Channel& channel = channels_[view.ends[step.endpoint].first];
        if (channel.empty()) {
          channel.receiver_waits = true;
          break;
        }
        start = end = std::max(start, channel.pop());
      } else if (step.kind != Kind::group) {
        end = start + durations_[step.work];
        if (step.kind == Kind::send) {
          held = held_[step.work];
          const FarEnd& far = view.ends[step.endpoint];
          Channel& channel = channels_[far.first];
          channel.push(end);
          if (channel.receiver_waits) {
            channel.receiver_waits = false;
            runnable_.push_back(far.peer);
          }
        }
      } else {
        // Set already when this rank was woken by the last member.
        if (ends[i] == kNever && !join(view.ends[step.endpoint], step, starts[i] = start)) {
          mine.in_group = true;
          break;
        }
        start = starts[i], end = ends[i];
      }
      starts[i] = start;
      ends[i] = end;
      latest = std::max(latest, end);
      free = is_serial(step.slot) ? end : start + held;
    }
    mine.cursor = i;
    makespan_ = latest;
  }

  // True if this was the last member: then all of them have their times, and the others continue.
  bool join(const FarEnd& round, const Step& step, Time at) {
    const auto meeting = graph_.graph().meeting(GroupId(round.peer), step.sequence);
    if (++arrived_[round.first + step.sequence] < meeting.size()) return false;
    const auto id = [&](graph::Participant p) { return graph_.ranks()[p.rank.index()].first_task + p.task.value; };
    for (const auto member : meeting) at = std::max(at, start_[id(member)]);
    for (const auto member : meeting) {
      start_[id(member)] = at;
      end_[id(member)] = at + durations_[step.work];
      if (std::exchange(ranks_[member.rank.index()].in_group, false)) runnable_.push_back(member.rank.value);
    }
    return true;
  }

  const Prepared& graph_;
  std::span<const Time> durations_, held_;
  Time* start_;
  Time* end_;
  std::vector<RankState> ranks_;
  std::vector<Channel> channels_;
  std::vector<std::uint32_t> arrived_;  // members per round
  std::vector<std::uint32_t> runnable_;
  Time makespan_;
};

}  // namespace

Outcome replay(const Prepared& graph, Prices prices, Timeline& timeline) {
  return Replay(graph, prices, timeline).run();
}

}  // namespace rehearsal::engine
