#include "schedule/replay.hpp"

#include <algorithm>

#include "schedule/walk.hpp"

namespace rehearsal::schedule {
namespace {

// Results on their way to one stage, by micro-batch. Holds what has been sent and not yet used: a ring that doubles
// when two micro-batches fall on one slot, so its size follows the spread of what is in flight, not m.
class Arrivals {
 public:
  void put(std::uint32_t microbatch, Time at) {
    while (slots_[slot(microbatch)].microbatch != kEmpty) grow();
    slots_[slot(microbatch)] = {microbatch, at};
  }

  bool holds(std::uint32_t microbatch) const { return slots_[slot(microbatch)].microbatch == microbatch; }

  // Takes the arrival out; false if nothing has come for this micro-batch.
  bool take(std::uint32_t microbatch, Time& at) {
    Slot& found = slots_[slot(microbatch)];
    if (found.microbatch != microbatch) return false;
    at = found.at;
    found.microbatch = kEmpty;
    return true;
  }

 private:
  static constexpr std::uint32_t kEmpty = UINT32_MAX;  // check() keeps micro-batches below
  struct Slot {
    std::uint32_t microbatch = kEmpty;
    Time at;
  };

  std::size_t slot(std::uint32_t microbatch) const { return microbatch & (slots_.size() - 1); }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& s : old)
      if (s.microbatch != kEmpty) slots_[slot(s.microbatch)] = s;
  }

  std::vector<Slot> slots_ = std::vector<Slot>(2);
};

// What the walk asks of an evaluator (kPieces: micro-batches are cut; kWires: messages hold a wire): an action starts
// when its rank is free and what it needs has arrived.
template <bool kPieces, bool kWires>
class Clock {
 public:
  Clock(Walk& walk, const Schedule& schedule, const Problem& problem, const ReplayOptions& options)
      : walk_(walk),
        problem_(problem),
        pieces_(pieces(schedule, problem)),
        options_(options),
        stages_(problem.stages()),
        ranks_(problem.ranks),
        wires_(kWires ? problem.ranks : 0) {
    for (std::uint32_t s = 0; s < stages_.size(); ++s) {
      Stage& stage = stages_[s];
      for (Op op : {Op::forward, Op::input_gradient, Op::weight_gradient, Op::backward})
        stage.duration[static_cast<std::size_t>(op)] = problem.time({0, static_cast<std::uint16_t>(s), op});
      stage.activation = problem.activation[s] / pieces_;
      stage.weight_hold = problem.weight_hold[s] / pieces_;
      stage.receives_activation = walk.receives_activation(s);
      stage.receives_gradient = walk.receives_gradient(s);
      stage.sends_activation = !walk.last_of_chain(s) && walk.receives_activation(s + 1);
      stage.sends_gradient = !walk.first_of_chain(s) && walk.receives_gradient(s - 1);
      if (!walk.last_of_chain(s)) stage.transfer_up = problem.transfer[s];
      if (!walk.first_of_chain(s)) stage.transfer_down = problem.transfer[s - 1];
    }
  }

  bool step(std::uint32_t rank, const Action& action) {
    Stage& stage = stages_[action.stage];
    Rank& mine = ranks_[rank];
    const bool forward = action.op == Op::forward;
    const bool backward = action.op == Op::input_gradient || action.op == Op::backward;

    Time start = mine.free;
    if (forward ? stage.receives_activation : backward && stage.receives_gradient) {
      Time arrival;
      if (!(forward ? stage.activations : stage.gradients).take(action.microbatch, arrival)) return false;
      start = std::max(start, arrival);
    }
    Time duration = stage.duration[static_cast<std::size_t>(action.op)];
    if constexpr (kPieces) duration = share(duration, pieces_, action.microbatch);
    Time end = start + duration;
    if (forward && stage.sends_activation)
      end = send(rank, action.stage + 1u, action.microbatch, true, end, stage.transfer_up);
    else if (backward && stage.sends_gradient)
      end = send(rank, action.stage - 1u, action.microbatch, false, end, stage.transfer_down);

    if (!mine.started) mine.started = true, mine.first = start;
    mine.free = end;
    mine.busy += duration;
    count(mine, stage, action.op);
    if (options_.visit) options_.visit({rank, action, start, end});
    return true;
  }

  // Both results leave at the end; with blocking transfers one after the other.
  bool step_pair(std::uint32_t rank, const Action& forward, const Action& backward) {
    Stage& f = stages_[forward.stage];
    Stage& b = stages_[backward.stage];
    Rank& mine = ranks_[rank];
    if (f.receives_activation && !f.activations.holds(forward.microbatch)) return false;
    if (b.receives_gradient && !b.gradients.holds(backward.microbatch)) return false;
    Time start = mine.free, arrival;
    if (f.receives_activation && f.activations.take(forward.microbatch, arrival)) start = std::max(start, arrival);
    if (b.receives_gradient && b.gradients.take(backward.microbatch, arrival)) start = std::max(start, arrival);
    const Time duration = problem_.time(forward, backward);
    Time end = start + duration;
    if (f.sends_activation) end = send(rank, forward.stage + 1u, forward.microbatch, true, end, f.transfer_up);
    if (b.sends_gradient) end = send(rank, backward.stage - 1u, backward.microbatch, false, end, b.transfer_down);

    if (!mine.started) mine.started = true, mine.first = start;
    mine.free = end;
    mine.busy += duration;
    count(mine, f, forward.op);
    count(mine, b, backward.op);
    if (options_.visit) {
      options_.visit({rank, forward, start, end});
      options_.visit({rank, backward, start, end});
    }
    return true;
  }

  Replay result() const {
    Replay replay;
    for (const Rank& rank : ranks_) {
      replay.cost = std::max(replay.cost, rank.free - rank.first);
      replay.makespan = std::max(replay.makespan, rank.free - ranks_[0].first);
      replay.end.push_back(rank.free);
      replay.busy.push_back(rank.busy);
      replay.in_flight_FW.push_back(rank.peak_FW);
      replay.in_flight_FB.push_back(rank.peak_FB);
      replay.peak_memory.push_back(rank.peak_memory);
    }
    replay.actions = walk_.actions();
    return replay;
  }

 private:
  struct Stage {
    std::array<Time, 4> duration;
    Time transfer_up, transfer_down;
    double activation = 0, weight_hold = 0;
    Arrivals activations, gradients;
    bool receives_activation = false, receives_gradient = false, sends_activation = false, sends_gradient = false;
  };

  struct Rank {
    Time free, first, busy;
    std::int64_t held_FW = 0, held_FB = 0, peak_FW = 0, peak_FB = 0;
    double memory = 0, peak_memory = 0;
    bool started = false;
  };

  // Returns when the sender is free again. Inlined by order, like count: it is worth half a second per billion actions,
  // and a compiler gives up when it sees a second call.
  [[gnu::always_inline]] inline Time send(std::uint32_t rank, std::uint32_t to_stage, std::uint32_t microbatch,
                                          bool forward, Time end, Time transfer) {
    Time leaves = end;
    if constexpr (kWires) {
      const std::uint32_t hop = forward ? to_stage - 1 : to_stage;
      Time& wire = wires_[rank][problem_.wire[hop]];
      leaves = std::max(end, wire);
      wire = leaves + problem_.held[hop];
    }
    const Time arrival = leaves + transfer;
    Stage& to = stages_[to_stage];
    (forward ? to.activations : to.gradients).put(microbatch, arrival);
    walk_.wake(walk_.rank_of(to_stage), to_stage, microbatch, forward);
    return options_.transfers == Transfers::blocking ? arrival : end;
  }

  [[gnu::always_inline]] static inline void count(Rank& rank, const Stage& stage, Op op) {
    switch (op) {
      case Op::forward:
        rank.peak_FW = std::max(rank.peak_FW, ++rank.held_FW);
        rank.peak_FB = std::max(rank.peak_FB, ++rank.held_FB);
        rank.memory += stage.activation;
        break;
      case Op::input_gradient:
        --rank.held_FB;
        rank.memory += stage.weight_hold - stage.activation;
        break;
      case Op::weight_gradient:
        --rank.held_FW;
        rank.memory -= stage.weight_hold;
        break;
      case Op::backward:
        --rank.held_FW;
        --rank.held_FB;
        rank.memory -= stage.activation;
        break;
    }
    rank.peak_memory = std::max(rank.peak_memory, rank.memory);
  }

  Walk& walk_;
  const Problem& problem_;
  std::uint32_t pieces_;
  const ReplayOptions& options_;
  std::vector<Stage> stages_;
  std::vector<Rank> ranks_;
  std::vector<std::array<Time, 2>> wires_;  // per rank: when each is free
};

}  // namespace

double Replay::bubble_rate() const {
  if (cost == Time()) return 0;
  return (cost - *std::max_element(busy.begin(), busy.end())) / cost;
}

Replay replay(const Schedule& schedule, const Problem& problem, const ReplayOptions& options) {
  check(schedule, problem);
  const Schedule ready = planned(schedule, problem);
  Walk walk(ready, problem);
  const auto evaluate = [&](auto clock) {
    walk.run(clock);
    return clock.result();
  };
  const bool wires = holds_wires(problem);
  if (pieces(ready, problem) > 1)
    return wires ? evaluate(Clock<true, true>(walk, ready, problem, options))
                 : evaluate(Clock<true, false>(walk, ready, problem, options));
  return wires ? evaluate(Clock<false, true>(walk, ready, problem, options))
               : evaluate(Clock<false, false>(walk, ready, problem, options));
}

}  // namespace rehearsal::schedule
