// Event-driven evaluation of given times: needed if ids are no common order of all ranks. A wire that becomes free is
// an event only if a message waits for it.
#include "base/radix_heap.hpp"
#include "engine/event_loop.hpp"

namespace rehearsal::engine {
namespace {

// Every task lasts what its work costs.
class Priced {
 public:
  static constexpr bool kTogether = false;

  explicit Priced(Prices prices) : durations_(prices.durations), held_(prices.held) {}

  Time now() const { return now_; }
  bool next(std::vector<TaskRef>& told) {
    if (queue_.empty()) return false;
    now_ = queue_.pop_instant(told);
    return true;
  }
  bool start(TaskRef task, const Step& step) {
    const Time duration = step.kind == Kind::receive ? Time{} : durations_[step.work];
    if (duration == Time{}) return true;
    queue_.push(now_ + duration, task);
    return false;
  }
  Time wire_free(TaskRef, const Step& step) const { return now_ + held_[step.work]; }
  void tell(Time at, TaskRef task) { queue_.push(at, task); }

 private:
  std::span<const Time> durations_, held_;
  RadixHeap<TaskRef> queue_;
  Time now_;
};

}  // namespace

Outcome simulate_events(const Prepared& graph, Prices prices, Timeline& timeline) {
  Priced clock(prices);
  return loop(graph, clock, timeline);
}

Outcome simulate_events_wide(const Prepared& graph, Prices prices, Timeline& timeline) {
  Priced clock(prices);
  return EventLoop<Priced, kMostSlots>(graph, clock, timeline).run();
}

}  // namespace rehearsal::engine
