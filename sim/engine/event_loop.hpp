// The loop of every event-driven evaluation: which tasks may start, and what an end releases. A clock decides how long
// things last: by their prices (events.cpp), or by sharing of resources (shared.cpp).
//
// Total order: (time, phase, task id), the ends of an instant before its starts. A lane is a head, the next task it may
// start, so the state is one head per lane and rank however long the programs are. A head that cannot start notes the
// one thing it waits for (as SAT solvers watch one literal) and is looked at again only when that has happened.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/stopping.hpp"
#include "engine/prepared.hpp"

namespace rehearsal::engine {
// What a head waits for: an earlier task of the rank, a message, or one of the constants.
inline constexpr std::uint32_t kChannelBit = std::uint32_t{1} << 31;  // with the number of the channel
inline constexpr std::uint32_t kMembers = kNone - 1;                  // the other members of its group
inline constexpr std::uint32_t kReleased = kNone - 2;                 // nothing: listed to start
inline constexpr std::uint32_t kRunning = kNone - 3;                  // its own end
inline constexpr std::uint32_t kWire = kNone - 4;                     // the message before it to leave the wire
constexpr std::uint32_t waits_on_channel(const FarEnd& far) {
  return kChannelBit | static_cast<std::uint32_t>(far.first);
}

// A task as rank and local id in one number: its order is the order of task ids. What a clock tells is the end of a
// task or, marked so, that the wire of its lane may have become free.
class TaskRef {
 public:
  TaskRef() = default;
  TaskRef(std::uint32_t rank, std::uint32_t local) : key_(std::uint64_t{rank} << 32 | local) {}
  std::uint32_t rank() const { return static_cast<std::uint32_t>(key_ >> 32); }
  std::uint32_t local() const { return static_cast<std::uint32_t>(key_) & ~kMark; }
  static TaskRef wire_of(TaskRef task) { return {task.rank(), task.local() | kMark}; }
  bool frees_wire() const { return key_ & kMark; }
  std::uint64_t key() const { return key_; }
  static TaskRef from(std::uint64_t key) {
    TaskRef task;
    task.key_ = key;
    return task;
  }
  friend bool operator<(TaskRef a, TaskRef b) { return a.key_ < b.key_; }

 private:
  static inline constexpr std::uint32_t kMark = std::uint32_t{1} << 31;  // above every task of a program
  std::uint64_t key_ = 0;
};

// Mostly two or three tasks; thousands if all ranks step together.
inline void in_id_order(std::vector<TaskRef>& tasks) {
  constexpr std::size_t kFew = 8;
  if (tasks.size() > kFew) return std::sort(tasks.begin(), tasks.end());
  for (std::size_t i = 1; i < tasks.size(); ++i)
    for (std::size_t j = i; j > 0 && tasks[j] < tasks[j - 1]; --j) std::swap(tasks[j], tasks[j - 1]);
}

// The messages of one channel that have arrived: all of the first few, and some later ones that overtook.
class Arrived {
 public:
  bool has(std::uint32_t k) const { return k < all_below_ || std::binary_search(early_.begin(), early_.end(), k); }
  void add(std::uint32_t k) {
    if (k != all_below_) {
      early_.insert(std::lower_bound(early_.begin(), early_.end(), k), k);
      return;
    }
    auto next = early_.begin();
    while (next != early_.end() && *next == all_below_ + 1) ++next, ++all_below_;
    ++all_below_;
    early_.erase(early_.begin(), next);
  }

 private:
  std::uint32_t all_below_ = 0;
  std::vector<std::uint32_t> early_;
};

// A Clock has
//   Time now() const
//   bool next(std::vector<TaskRef>& told)     to the next instant in which something happens, and what; false: nothing
//   will bool start(TaskRef, const Step&)          from now on; true when it ends in the same instant, and is not told
//   Time wire_free(TaskRef, const Step&)      of a send that starts now: when its wire is free; kNever: will be told
//   bool start_group(std::uint32_t group, TaskRef first, const Step&)   all members together, told as the first;
//                                             only where kTogether
//   void tell(Time, TaskRef)                  of a wire
// The state of a rank has room for the heads of so many lanes. Mostly it is one cache line: an event touches two ranks
// at random.
template <class Clock, std::size_t Slots>
class EventLoop {
 public:
  EventLoop(const Prepared& graph, Clock& clock, Timeline& timeline)
      : graph_(graph),
        clock_(clock),
        start_(timeline.start.data()),
        end_(timeline.end.data()),
        channels_(graph.channels()),
        wires_(graph.ranks().size()),
        arrived_(graph.rounds(), 0) {
    for (const RankView& view : graph.ranks()) ranks_.push_back({{}, view.steps.data(), view.first_task});
  }

  Outcome run() {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      for (std::size_t slot = 0; slot < graph_.ranks()[r].first_of_slot.size(); ++slot)
        set_head(r, ranks_[r], slot, graph_.ranks()[r].first_of_slot[slot]);
    start_released();
    // Tasks without duration end in the instant in which they start: another round of the same instant.
    for (LooksUp looks(1024); !told_.empty() || clock_.next(told_); looks.step()) {
      in_id_order(told_);
      for (TaskRef task : told_) hear(task);
      told_.clear();
      start_released();
    }
    Outcome outcome{clock_.now(), {}};
    for (const RankState& rank : ranks_)
      for (const Head& head : rank.heads)
        if (head.task != kNone) outcome.stuck.push_back(TaskId(rank.first_task + head.task));
    return outcome;
  }

 private:
  struct Head {
    std::uint32_t task = kNone;
    std::uint32_t waits_for = kNone;
  };
  struct alignas(64) RankState {
    std::array<Head, Slots> heads;
    const Step* steps;
    std::uint64_t first_task;
  };
  static_assert(sizeof(RankState) == 16 + 8 * Slots);

  const FarEnd& far_end(std::uint32_t rank, const Step& step) const { return graph_.ranks()[rank].ends[step.endpoint]; }
  // When the wire that a send leaves by is free.
  Time& wire(std::uint32_t rank, const Step& step) { return wires_[rank][step.slot - kFirstWire]; }

  // The next task of a lane: starts in this instant if it can.
  void set_head(std::uint32_t rank, RankState& mine, std::size_t slot, std::uint32_t task) {
    mine.heads[slot].task = task;
    mine.heads[slot].waits_for = kNone;
    if (task != kNone) look_at(rank, mine, mine.heads[slot]);
  }

  // Notes what the head still waits for, or lists it to start.
  void look_at(std::uint32_t rank, const RankState& mine, Head& head) {
    const Step& step = mine.steps[head.task];
    head.waits_for = unfinished_dependency(rank, mine, step, head.task);
    if (head.waits_for != kNone) return;
    if (step.kind == Kind::receive) {
      const FarEnd& far = far_end(rank, step);
      if (!channels_[far.first].has(step.sequence)) {
        head.waits_for = waits_on_channel(far);
        return;
      }
    } else if (is_send(step.slot)) {
      if (const Time free = wire(rank, step); free > clock_.now()) {
        head.waits_for = kWire;
        if (free != kNever) clock_.tell(free, TaskRef::wire_of({rank, head.task}));
        return;
      }
    }
    head.waits_for = kReleased;
    released_.emplace_back(rank, head.task);
  }

  // A dependency that has not ended, the latest by id because it will tend to end last; kNone when all have.
  std::uint32_t unfinished_dependency(std::uint32_t rank, const RankState& mine, const Step& step,
                                      std::uint32_t task) const {
    if (step.dependency == kNone) return kNone;
    const Time* end = end_ + mine.first_task;
    if (step.dependency != kMany) return end[step.dependency] != kNever ? kNone : step.dependency;
    const auto before = graph_.ranks()[rank].program->dependencies[task];
    for (std::size_t i = before.size(); i-- > 0;)
      if (end[before[i].index()] == kNever) return before[i].value;
    return kNone;
  }

  // Looks again at the heads among `slots` that wait for this.
  void wake(std::uint32_t rank, RankState& mine, std::uint32_t slots, std::uint32_t waits_for) {
    for (; slots != 0; slots &= slots - 1) {
      Head& head = mine.heads[static_cast<std::size_t>(std::countr_zero(slots))];
      if (head.waits_for == waits_for) look_at(rank, mine, head);
    }
  }

  void hear(TaskRef task) {
    RankState& mine = ranks_[task.rank()];
    const Step& step = mine.steps[task.local()];
    if (task.frees_wire()) {
      wire(task.rank(), step) = clock_.now();
      Head& head = mine.heads[step.slot];
      if (head.waits_for == kWire) look_at(task.rank(), mine, head);
    } else if (Clock::kTogether && step.kind == Kind::group) {
      const GroupId group(far_end(task.rank(), step).peer);
      for (const auto [rank, local] : graph_.graph().meeting(group, step.sequence)) finish({rank.value, local.value});
    } else {
      finish(task);
    }
  }

  void finish(TaskRef task) {
    RankState& mine = ranks_[task.rank()];
    const Step& step = mine.steps[task.local()];
    end_[mine.first_task + task.local()] = clock_.now();
    if (is_serial(step.slot)) set_head(task.rank(), mine, step.slot, step.next);
    wake(task.rank(), mine, step.awaited_on, task.local());
    if (step.kind == Kind::send) {
      const FarEnd& far = far_end(task.rank(), step);
      channels_[far.first].add(step.sequence);
      wake(far.peer, ranks_[far.peer], far.slots, waits_on_channel(far));
    }
  }

  void start_released() {
    in_id_order(released_);
    // Starts on a lane of messages append the next head of that lane.
    for (std::size_t i = 0; i < released_.size(); ++i) {
      const TaskRef task = released_[i];
      RankState& mine = ranks_[task.rank()];
      const Step& step = mine.steps[task.local()];
      if (step.kind == Kind::group)
        join(far_end(task.rank(), step), mine, step);
      else if (begin(task, mine, step); clock_.start(task, step))
        told_.push_back(task);
    }
    released_.clear();
  }

  // The last member starts all of them.
  void join(const FarEnd& round, RankState& mine, const Step& step) {
    mine.heads[step.slot].waits_for = kMembers;
    const auto meeting = graph_.graph().meeting(GroupId(round.peer), step.sequence);
    if (++arrived_[round.first + step.sequence] < meeting.size()) return;
    for (const auto [rank, local] : meeting) {
      RankState& theirs = ranks_[rank.index()];
      const TaskRef task(rank.value, local.value);
      begin(task, theirs, theirs.steps[local.index()]);
      if constexpr (!Clock::kTogether)
        if (clock_.start(task, step)) told_.push_back(task);
    }
    if constexpr (Clock::kTogether) {
      const TaskRef first(meeting[0].rank.value, meeting[0].task.value);
      if (clock_.start_group(round.peer, first, step)) told_.push_back(first);
    }
  }

  void begin(TaskRef task, RankState& mine, const Step& step) {
    start_[mine.first_task + task.local()] = clock_.now();
    if (is_serial(step.slot)) {
      mine.heads[step.slot].waits_for = kRunning;
      return;
    }
    if (step.kind == Kind::send && is_send(step.slot)) wire(task.rank(), step) = clock_.wire_free(task, step);
    set_head(task.rank(), mine, step.slot, step.next);
  }

  const Prepared& graph_;
  Clock& clock_;
  Time* start_;
  Time* end_;  // kNever until a task has ended
  std::vector<RankState> ranks_;
  std::vector<Arrived> channels_;
  std::vector<std::array<Time, graph::kWires>> wires_;  // per rank: when each is free
  std::vector<std::uint32_t> arrived_;                  // members per round
  std::vector<TaskRef> told_, released_;
};

inline constexpr std::size_t kCommonSlots = 6, kManySlots = 14, kMostSlots = 22;  // lanes: one cache line, two, three
static_assert(graph::kLanes < kMostSlots, "a wider state for so many lanes");

template <class Clock>
Outcome loop(const Prepared& graph, Clock& clock, Timeline& timeline) {
  if (graph.slots() > kManySlots) return EventLoop<Clock, kMostSlots>(graph, clock, timeline).run();
  if (graph.slots() > kCommonSlots) return EventLoop<Clock, kManySlots>(graph, clock, timeline).run();
  return EventLoop<Clock, kCommonSlots>(graph, clock, timeline).run();
}

}  // namespace rehearsal::engine
