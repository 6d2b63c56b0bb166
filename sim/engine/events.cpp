// Event-driven evaluation: time moves from one end of a task to the next. Needed where ids are no common order of all
// ranks, and wherever durations come to depend on what else runs.
//
// Total order: (time, phase, task id), the ends of an instant before its starts. A lane is a head, the next task it may
// start, so the state is five heads per rank however long the programs are. A head that cannot start notes the one
// thing it waits for (as SAT solvers watch one literal) and is looked at again only when that has happened.
#include <algorithm>

#include "engine/prepared.hpp"
#include "engine/radix_heap.hpp"

namespace rehearsal::engine {
namespace {

constexpr std::uint32_t kFarSend = kNone - 1;   // the send at the other end of the channel
constexpr std::uint32_t kMembers = kNone - 2;   // the other members of its group
constexpr std::uint32_t kReleased = kNone - 3;  // nothing: listed to start
constexpr std::uint32_t kRunning = kNone - 4;   // its own end
constexpr std::size_t lane_index(Lane lane) { return static_cast<std::size_t>(lane); }

struct TaskRef {
  std::uint32_t rank, local;
  friend auto operator<=>(const TaskRef&, const TaskRef&) = default;  // the order of task ids
};

class Events {
 public:
  Events(const Prepared& graph, std::span<const Time> durations, Timeline& timeline)
      : graph_(graph),
        durations_(durations),
        start_(timeline.start.data()),
        end_(timeline.end.data()),
        heads_(graph.ranks().size()),
        arrived_(graph.rounds(), 0) {}

  Outcome run() {
    for (std::uint32_t r = 0; r < heads_.size(); ++r)
      for (std::size_t lane = 0; lane < graph::kLanes; ++lane) set_head(r, lane, graph_.ranks()[r].first_of_lane[lane]);
    start_released();
    while (!ended_.empty() || !queue_.empty()) {
      // Tasks without duration end in the instant in which they start: another round of the same instant.
      if (ended_.empty()) now_ = queue_.pop_instant(ended_);
      in_id_order(ended_);
      for (std::size_t i = 0; i < ended_.size(); ++i) finish(ended_[i]);
      ended_.clear();
      start_released();
    }
    Outcome outcome{now_, {}};
    for (std::size_t r = 0; r < heads_.size(); ++r)
      for (const Head& head : heads_[r])
        if (head.task != kNone) outcome.stuck.push_back(TaskId(graph_.ranks()[r].first_task + head.task));
    return outcome;
  }

 private:
  struct Head {
    std::uint32_t task = kNone;
    std::uint32_t waits_for = kNone;  // an earlier task of the rank, or one of the constants above
    std::uint32_t checked = 0;        // dependencies known to have ended
  };
  using Heads = std::array<Head, graph::kLanes>;

  static void in_id_order(std::vector<TaskRef>& tasks) {
    if (tasks.size() > 1 && !std::is_sorted(tasks.begin(), tasks.end())) std::sort(tasks.begin(), tasks.end());
  }

  void set_head(std::uint32_t rank, std::size_t lane, std::uint32_t task) {
    Head& head = heads_[rank][lane];
    head = {task, kNone, 0};
    if (task != kNone) release(rank, head);
  }

  void release(std::uint32_t rank, Head& head) {
    head.waits_for = kReleased;
    released_.push_back({rank, head.task});
  }

  void finish(TaskRef task) {
    const RankView& view = graph_.ranks()[task.rank];
    const Step& step = view.steps[task.local];
    if (is_serial(step.lane)) set_head(task.rank, lane_index(step.lane), step.next);
    for (Head& head : heads_[task.rank])
      if (head.waits_for == task.local) release(task.rank, head);
    if (step.kind == Kind::send) {
      const FarEnd& far = view.ends[step.endpoint];
      const std::uint32_t receive = far.tasks[step.sequence].value;
      for (Head& head : heads_[far.peer])
        if (head.task == receive && head.waits_for == kFarSend) release(far.peer, head);
    }
  }

  void start_released() {
    in_id_order(released_);
    // Starts on a lane of messages append the next head of that lane.
    for (std::size_t i = 0; i < released_.size(); ++i) try_start(released_[i]);
    released_.clear();
  }

  void try_start(TaskRef task) {
    const RankView& view = graph_.ranks()[task.rank];
    const Step& step = view.steps[task.local];
    Head& head = heads_[task.rank][lane_index(step.lane)];
    if (!dependencies_ended(view, step, task.local, head)) return;
    switch (step.kind) {
      case Kind::plain:
      case Kind::send:
        start(task, durations_[step.work]);
        break;
      case Kind::receive: {
        const FarEnd& far = view.ends[step.endpoint];
        if (end_[far.base + far.tasks[step.sequence].value] <= now_)
          start(task, Time{});
        else
          head.waits_for = kFarSend;
        break;
      }
      case Kind::group: {
        head.waits_for = kMembers;
        const FarEnd& round = view.ends[step.endpoint];
        const auto& members = graph_.graph().groups()[round.peer].members;
        if (++arrived_[round.base + step.sequence] < members.size()) break;
        for (const graph::GroupMember& m : members)
          start({m.rank.value, graph_.member_task(m, step.sequence).value}, durations_[step.work]);
        break;
      }
    }
  }

  // If not, the head notes the first that has not.
  bool dependencies_ended(const RankView& view, const Step& step, std::uint32_t local, Head& head) const {
    if (step.waits == Waits::none) return true;
    const Time* end = end_ + view.first_task;
    if (step.waits == Waits::one) {
      if (end[step.dependency] <= now_) return true;
      head.waits_for = step.dependency;
      return false;
    }
    const auto before = view.program->dependencies[local];
    for (; head.checked < before.size(); ++head.checked)
      if (end[before[head.checked].index()] > now_) {
        head.waits_for = before[head.checked].value;
        return false;
      }
    return true;
  }

  void start(TaskRef task, Time duration) {
    const RankView& view = graph_.ranks()[task.rank];
    const Step& step = view.steps[task.local];
    start_[view.first_task + task.local] = now_;
    end_[view.first_task + task.local] = now_ + duration;
    if (duration == Time{})
      ended_.push_back(task);
    else
      queue_.push(now_ + duration, task);
    if (is_serial(step.lane))
      heads_[task.rank][lane_index(step.lane)].waits_for = kRunning;
    else
      set_head(task.rank, lane_index(step.lane), step.next);
  }

  const Prepared& graph_;
  std::span<const Time> durations_;
  Time* start_;
  Time* end_;
  std::vector<Heads> heads_;            // indexed by rank
  std::vector<std::uint32_t> arrived_;  // members per round
  std::vector<TaskRef> ended_, released_;
  RadixHeap<TaskRef> queue_;
  Time now_;
};

}  // namespace

Outcome simulate_events(const Prepared& graph, std::span<const Time> durations, Timeline& timeline) {
  return Events(graph, durations, timeline).run();
}

}  // namespace rehearsal::engine
