// Event-driven evaluation: time moves from one end of a task to the next. Needed where ids are no common order of all
// ranks, and wherever durations come to depend on what else runs.
//
// Total order: (time, phase, task id), the ends of an instant before its starts. A lane is a head, the next task it may
// start, so the state is six heads per rank however long the programs are. A head that cannot start notes the one
// thing it waits for (as SAT solvers watch one literal) and is looked at again only when that has happened. That a wire
// becomes free is an event only where a message waits for it.
#include <algorithm>
#include <bit>

#include "base/radix_heap.hpp"
#include "engine/prepared.hpp"

namespace rehearsal::engine {
namespace {

// What a head waits for: an earlier task of the rank, a message, or one of the constants.
constexpr std::uint32_t kChannelBit = std::uint32_t{1} << 31;  // with the number of the channel
constexpr std::uint32_t kMembers = kNone - 1;                  // the other members of its group
constexpr std::uint32_t kReleased = kNone - 2;                 // nothing: listed to start
constexpr std::uint32_t kRunning = kNone - 3;                  // its own end
constexpr std::uint32_t kWire = kNone - 4;                     // the message before it to leave the wire
constexpr std::uint32_t waits_on_channel(const FarEnd& far) {
  return kChannelBit | static_cast<std::uint32_t>(far.first);
}

// A task as rank and local id in one number: its order is the order of task ids. In the queue, a task whose wire
// becomes free, marked so; elsewhere a task that ends.
class TaskRef {
 public:
  TaskRef() = default;
  TaskRef(std::uint32_t rank, std::uint32_t local) : key_(std::uint64_t{rank} << 32 | local) {}
  std::uint32_t rank() const { return static_cast<std::uint32_t>(key_ >> 32); }
  std::uint32_t local() const { return static_cast<std::uint32_t>(key_) & ~kMark; }
  static TaskRef may_leave(std::uint32_t rank, std::uint32_t local) { return {rank, local | kMark}; }
  bool leaves() const { return key_ & kMark; }
  friend bool operator<(TaskRef a, TaskRef b) { return a.key_ < b.key_; }

 private:
  static constexpr std::uint32_t kMark = std::uint32_t{1} << 31;  // above every task of a program
  std::uint64_t key_ = 0;
};

// Mostly two or three tasks; thousands where all ranks step together.
void in_id_order(std::vector<TaskRef>& tasks) {
  constexpr std::size_t kFew = 8;
  if (tasks.size() > kFew) return std::sort(tasks.begin(), tasks.end());
  for (std::size_t i = 1; i < tasks.size(); ++i)
    for (std::size_t j = i; j > 0 && tasks[j] < tasks[j - 1]; --j) std::swap(tasks[j], tasks[j - 1]);
}

// Which messages of one channel have arrived: all of the first few, and some later ones that overtook.
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

// The state of a rank has room for the heads of so many lanes. Mostly it is one cache line: an event touches two ranks
// at random.
template <std::size_t Slots>
class Events {
 public:
  Events(const Prepared& graph, Prices prices, Timeline& timeline)
      : graph_(graph),
        durations_(prices.durations),
        held_(prices.held),
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
    while (!ended_.empty() || !queue_.empty()) {
      // Tasks without duration end in the instant in which they start: another round of the same instant.
      if (ended_.empty()) now_ = queue_.pop_instant(ended_);
      in_id_order(ended_);
      for (TaskRef task : ended_) finish(task);
      ended_.clear();
      start_released();
    }
    Outcome outcome{now_, {}};
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
      if (const Time free = wire(rank, step); free > now_) {
        head.waits_for = kWire;
        queue_.push(free, TaskRef::may_leave(rank, head.task));
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
    if (step.dependency != kMany) return end[step.dependency] <= now_ ? kNone : step.dependency;
    const auto before = graph_.ranks()[rank].program->dependencies[task];
    for (std::size_t i = before.size(); i-- > 0;)
      if (end[before[i].index()] > now_) return before[i].value;
    return kNone;
  }

  // Looks again at the heads among `slots` that wait for this.
  void wake(std::uint32_t rank, RankState& mine, std::uint32_t slots, std::uint32_t waits_for) {
    for (; slots != 0; slots &= slots - 1) {
      Head& head = mine.heads[static_cast<std::size_t>(std::countr_zero(slots))];
      if (head.waits_for == waits_for) look_at(rank, mine, head);
    }
  }

  void finish(TaskRef task) {
    RankState& mine = ranks_[task.rank()];
    const Step& step = mine.steps[task.local()];
    if (task.leaves()) return look_at(task.rank(), mine, mine.heads[step.slot]);
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
      if (step.kind != Kind::group)
        start(task, mine, step, step.kind == Kind::receive ? Time{} : durations_[step.work]);
      else
        join(far_end(task.rank(), step), mine, step);
    }
    released_.clear();
  }

  // The last member starts all of them.
  void join(const FarEnd& round, RankState& mine, const Step& step) {
    mine.heads[step.slot].waits_for = kMembers;
    const auto meeting = graph_.graph().meeting(GroupId(round.peer), step.sequence);
    if (++arrived_[round.first + step.sequence] < meeting.size()) return;
    for (const auto [rank, task] : meeting) {
      RankState& theirs = ranks_[rank.index()];
      start({rank.value, task.value}, theirs, theirs.steps[task.index()], durations_[step.work]);
    }
  }

  void start(TaskRef task, RankState& mine, const Step& step, Time duration) {
    const std::uint64_t id = mine.first_task + task.local();
    const Time end = now_ + duration;
    start_[id] = now_;
    end_[id] = end;
    if (duration == Time{})
      ended_.push_back(task);
    else
      queue_.push(end, task);
    if (is_serial(step.slot)) {
      mine.heads[step.slot].waits_for = kRunning;
      return;
    }
    if (is_send(step.slot) && step.kind == Kind::send) wire(task.rank(), step) = now_ + held_[step.work];
    set_head(task.rank(), mine, step.slot, step.next);
  }

  const Prepared& graph_;
  std::span<const Time> durations_, held_;
  Time* start_;
  Time* end_;
  std::vector<RankState> ranks_;
  std::vector<Arrived> channels_;
  std::vector<std::array<Time, graph::kWires>> wires_;  // per rank: when each is free
  std::vector<std::uint32_t> arrived_;                  // members per round
  std::vector<TaskRef> ended_, released_;
  RadixHeap<TaskRef> queue_;
  Time now_;
};

}  // namespace

constexpr std::size_t kCommon = 6, kMost = 14;  // lanes: one cache line, two
static_assert(graph::kLanes < kMost, "a wider state for so many lanes");

Outcome simulate_events(const Prepared& graph, Prices prices, Timeline& timeline) {
  if (graph.slots() > kCommon) return simulate_events_wide(graph, prices, timeline);
  return Events<kCommon>(graph, prices, timeline).run();
}

Outcome simulate_events_wide(const Prepared& graph, Prices prices, Timeline& timeline) {
  return Events<kMost>(graph, prices, timeline).run();
}

}  // namespace rehearsal::engine
