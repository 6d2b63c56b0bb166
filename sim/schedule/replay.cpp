#include "schedule/replay.hpp"

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "schedule/walk.hpp"

namespace rehearsal::schedule {
namespace {

// Results in flight to one stage, by micro-batch. Holds what has been sent and not yet used: a ring buffer that doubles
// when two micro-batches fall on one slot, so its size follows the spread of what is in flight, not m. A stage may need
// several results per micro-batch (kSeveral), the last of which counts.
template <bool kSeveral>
class Arrivals {
 public:
  void need(std::uint32_t of_each) { needed_ = of_each; }
  bool any() const { return needed_ > 0; }

  void put(std::uint32_t microbatch, Time at) {
    if constexpr (kSeveral) {
      if (Slot& found = slots_[slot(microbatch)]; found.microbatch == microbatch) {
        found.at = std::max(found.at, at);
        ++found.arrived;
        return;
      }
    }
    while (slots_[slot(microbatch)].microbatch != kEmpty) grow();
    slots_[slot(microbatch)] = {microbatch, 1, at};
  }

  bool holds(std::uint32_t microbatch) const {
    const Slot& found = slots_[slot(microbatch)];
    return found.microbatch == microbatch && (!kSeveral || found.arrived == needed_);
  }

  // Takes the arrival out; false if a result for this micro-batch has not arrived.
  bool take(std::uint32_t microbatch, Time& at) {
    if (!holds(microbatch)) return false;
    Slot& found = slots_[slot(microbatch)];
    at = found.at;
    found.microbatch = kEmpty;
    return true;
  }

 private:
  static constexpr std::uint32_t kEmpty = UINT32_MAX;  // check() keeps micro-batches below
  struct Slot {
    std::uint32_t microbatch = kEmpty, arrived = 0;
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
  std::uint32_t needed_ = 0;
};

// The evaluator's part of the walk (kPieces: micro-batches are split; kWires: messages hold a wire; kGraph: stages are
// no chain, so a pass may wait for several others and send to several): an action starts when its rank is free and its
// inputs have arrived.
template <bool kPieces, bool kWires, bool kGraph>
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
      const auto links = [&](std::span<const Edge> edges, std::uint32_t Edge::*other) {
        std::vector<Link> all;
        for (const Edge& edge : edges)
          if (walk.crosses(edge))
            all.push_back({edge.*other, walk.rank_of(edge.*other), edge.transfer, edge.held, edge.wire});
        return all;
      };
      const auto set = [](Links& to, std::vector<Link> all) {
        if constexpr (kGraph)
          to = std::move(all);
        else if (!all.empty())
          to = all.front();
      };
      auto up = links(walk.graph().out_of(s), &Edge::to), down = links(walk.graph().into(s), &Edge::from);
      stage.gradients.need(std::uint32_t(up.size() + walk.graph().turned_into(s).size()));
      stage.activations.need(std::uint32_t(down.size()));
      set(stage.up, std::move(up)), set(stage.down, std::move(down));
      if constexpr (kGraph) stage.turned = links(walk.graph().turned_out_of(s), &Edge::to);
    }
  }

  bool step(std::uint32_t rank, const Action& action) {
    Stage& stage = stages_[action.stage];
    Rank& mine = ranks_[rank];
    const bool forward = action.op == Op::forward;
    const bool backward = action.op == Op::input_gradient || action.op == Op::backward;

    Time start = mine.free;
    if (forward ? stage.activations.any() : backward && stage.gradients.any()) {
      Time arrival;
      if (!(forward ? stage.activations : stage.gradients).take(action.microbatch, arrival)) return false;
      start = std::max(start, arrival);
    }
    Time duration = stage.duration[static_cast<std::size_t>(action.op)];
    if constexpr (kPieces) duration = share(duration, pieces_, action.microbatch);
    Time end = start + duration;
    mine.sent = {};
    if (forward || backward) end = send_all(rank, forward ? stage.up : stage.down, action.microbatch, forward, end);
    if constexpr (kGraph)
      if (forward) end = send_all(rank, stage.turned, action.microbatch, false, end);

    if (!mine.started) mine.started = true, mine.first = start;
    mine.free = end;
    mine.busy += duration;
    count(mine, stage, action.op);
    if (options_.visit) options_.visit({rank, action, start, end});
    return true;
  }

  // Both results leave at the end; with blocking transfers they are sent one after the other.
  bool step_pair(std::uint32_t rank, const Action& forward, const Action& backward) {
    Stage& f = stages_[forward.stage];
    Stage& b = stages_[backward.stage];
    Rank& mine = ranks_[rank];
    if (f.activations.any() && !f.activations.holds(forward.microbatch)) return false;
    if (b.gradients.any() && !b.gradients.holds(backward.microbatch)) return false;
    Time start = mine.free, arrival;
    if (f.activations.any() && f.activations.take(forward.microbatch, arrival)) start = std::max(start, arrival);
    if (b.gradients.any() && b.gradients.take(backward.microbatch, arrival)) start = std::max(start, arrival);
    const Time duration = problem_.time(forward, backward);
    Time end = start + duration;
    end = send_all(rank, f.up, forward.microbatch, true, end);
    mine.sent = {};
    end = send_all(rank, b.down, backward.microbatch, false, end);

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
      replay.sent.push_back(rank.sent);
      replay.busy.push_back(rank.busy);
      replay.in_flight_FW.push_back(rank.peak_FW);
      replay.in_flight_FB.push_back(rank.peak_FB);
      replay.peak_memory.push_back(rank.peak_memory);
    }
    replay.actions = walk_.actions();
    return replay;
  }

 private:
  // To a stage of another rank.
  struct Link {
    std::uint32_t stage = kNowhere, rank = 0;
    Time transfer, held;
    std::uint8_t wire = 0;
  };
  static constexpr std::uint32_t kNowhere = UINT32_MAX;
  using Links = std::conditional_t<kGraph, std::vector<Link>, Link>;
  struct Stage {
    std::array<Time, 4> duration;
    Links up, down;
    std::conditional_t<kGraph, Links, std::monostate> turned;
    double activation = 0, weight_hold = 0;
    Arrivals<kGraph> activations, gradients;
  };

  struct Rank {
    Time free, first, busy, sent;
    std::int64_t held_FW = 0, held_FB = 0, peak_FW = 0, peak_FB = 0;
    double memory = 0, peak_memory = 0;
    bool started = false;
  };

  // Returns when the sender is free again.
  [[gnu::always_inline]] inline Time send_all(std::uint32_t rank, const Links& links, std::uint32_t microbatch,
                                              bool forward, Time end) {
    if constexpr (kGraph) {
      for (const Link& link : links) end = send(rank, link, microbatch, forward, end);
      return end;
    } else {
      return links.stage == kNowhere ? end : send(rank, links, microbatch, forward, end);
    }
  }
  // Forced inlining, as for count: it saves half a second per billion actions, and compilers stop inlining at a second
  // call.
  [[gnu::always_inline]] inline Time send(std::uint32_t rank, const Link& link, std::uint32_t microbatch, bool forward,
                                          Time end) {
    Time leaves = end;
    if constexpr (kWires) {
      Time& wire = wires_[rank][link.wire];
      leaves = std::max(end, wire);
      wire = leaves + link.held;
    }
    const Time arrival = ranks_[rank].sent = leaves + link.transfer;
    Stage& to = stages_[link.stage];
    (forward ? to.activations : to.gradients).put(microbatch, arrival);
    walk_.wake(link.rank, link.stage, microbatch, forward);
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
  if (!walk.graph().chain()) return evaluate(Clock<false, true, true>(walk, ready, problem, options));
  if (pieces(ready, problem) > 1)
    return wires ? evaluate(Clock<true, true, false>(walk, ready, problem, options))
                 : evaluate(Clock<true, false, false>(walk, ready, problem, options));
  return wires ? evaluate(Clock<false, true, false>(walk, ready, problem, options))
               : evaluate(Clock<false, false, false>(walk, ready, problem, options));
}

}  // namespace rehearsal::schedule
