#include "schedule/replay_again.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "schedule/registry.hpp"
#include "schedule/stage_graph.hpp"

namespace rehearsal::schedule {
namespace {

// An order whose actions are sorted so that each comes after what it waits for.
class Recording {
 public:
  // Throws what replay throws. `replay`: what it gives for these times.
  Recording(const Schedule& schedule, const Problem& problem, Transfers transfers, Replay& replay) {
    std::vector<std::uint32_t> last(problem.ranks);  // index of each rank's last action
    const auto stages = problem.stages();
    const StageGraph graph(schedule, problem);
    const auto rank = [&](std::uint32_t stage) { return rank_of(schedule.placement, problem, stage); };
    std::vector<bool> up(stages), down(stages);  // whether a stage sends to another rank
    for (std::uint32_t s = 0; s < stages; ++s) {
      for (const auto& edge : graph.out_of(s)) up[s] = rank(edge.from) != rank(edge.to);
      for (const auto& edge : graph.into(s)) down[s] = rank(edge.from) != rank(edge.to);
    }
    std::vector<std::vector<std::uint32_t>> arrived(2 * stages, std::vector<std::uint32_t>(problem.microbatches));
    std::vector<std::uint32_t> unused;
    std::vector<Action> seen;
    const auto note = [&](const ReplayedAction& done) {
      const auto& action = done.action;
      paired_ = paired_ || action.overlaps_next;
      const bool forward = action.op == Op::forward, weight = action.op == Op::weight_gradient;
      Item item{std::uint32_t(action.stage * 4 + int(action.op)), kNothing, kNowhere};
      if (!weight && (forward ? down : up)[action.stage]) {
        item.waits_for = arrived[2 * action.stage + forward][action.microbatch];
        unused.push_back(item.waits_for);
      }
      if (!weight && (forward ? up : down)[action.stage]) {
        if (unused.empty()) unused.push_back(slots_++);
        item.gives = unused.back(), unused.pop_back();
        const auto to = forward ? action.stage + 1u : action.stage - 1u;
        arrived[2 * to + forward][action.microbatch] = item.gives;
      }
      last[done.rank] = std::uint32_t(items_.size());
      items_.push_back(item);
    };
    replay = schedule::replay(schedule, problem, {.transfers = transfers, .visit = note});
    // Of a slot that other messages use later, the arrival of a rank's last message would be lost.
    for (const auto at : last) {
      if (items_[at].gives != kNowhere) {
        const auto slot = slots_++, was = items_[at].gives;
        const auto reader =
            std::find_if(items_.begin() + at + 1, items_.end(), [&](auto& i) { return i.waits_for == was; });
        items_[at].gives = slot;
        if (reader != items_.end()) reader->waits_for = slot;
      }
      ends_.push_back(items_[at].gives);
    }
    in_flight_FW_ = replay.in_flight_FW, in_flight_FB_ = replay.in_flight_FB;
  }

  std::size_t size() const { return items_.size(); }
  // An overlapped pair has a time of its own, which a list of single actions does not have.
  bool paired() const { return paired_; }

  Replay replay(const Schedule& schedule, const Problem& problem, Transfers transfers) const {
    const bool blocking = transfers == Transfers::blocking;
    std::vector<Row> rows = rows_of(schedule, problem);
    std::vector<Rank> ranks(problem.ranks);
    std::vector<Time> slots(slots_), wires(2 * problem.ranks);
    for (const auto& item : items_) {
      const Row& row = rows[item.row];
      Rank& rank = ranks[row.rank];
      const Time start = std::max(rank.free, slots[item.waits_for]);
      if (!rank.started) rank.started = true, rank.first = start;
      rank.free = start + row.duration;
      rank.busy += row.duration;
      rank.memory += row.memory;
      rank.peak_memory = std::max(rank.peak_memory, rank.memory);
      if (item.gives == kNowhere) continue;
      Time& wire = wires[row.wire];
      const Time leaves = std::max(rank.free, wire);
      wire = leaves + row.held;
      slots[item.gives] = leaves + row.transfer;
      if (blocking) rank.free = leaves + row.transfer;
    }
    Replay result;
    for (std::uint32_t r = 0; r < problem.ranks; ++r) {
      const Rank& rank = ranks[r];
      result.cost = std::max(result.cost, rank.free - rank.first);
      result.makespan = std::max(result.makespan, rank.free - ranks[0].first);
      result.end.push_back(rank.free), result.busy.push_back(rank.busy);
      result.sent.push_back(ends_[r] == kNowhere ? Time() : slots[ends_[r]]);
      result.peak_memory.push_back(rank.peak_memory);
    }
    result.in_flight_FW = in_flight_FW_, result.in_flight_FB = in_flight_FB_;
    result.actions = items_.size();
    return result;
  }

 private:
  // Slots hold when messages arrive; another message takes a slot as soon as its action has read it.
  static constexpr std::uint32_t kNothing = 0, kNowhere = UINT32_MAX;  // slot 0 stays 0
  struct Item {
    std::uint32_t row, waits_for, gives;
  };
  // What all actions of a kind and stage have in common.
  struct Row {
    Time duration, transfer, held;
    double memory = 0;
    std::uint32_t rank = 0, wire = 0;
  };
  struct Rank {
    Time free, first, busy;
    double memory = 0, peak_memory = 0;
    bool started = false;
  };

  static std::vector<Row> rows_of(const Schedule& schedule, const Problem& problem) {
    std::vector<Row> rows(4 * problem.stages());
    const bool wires = holds_wires(problem);
    for (std::uint32_t s = 0; s < problem.stages(); ++s) {
      const auto rank = rank_of(schedule.placement, problem, s);
      const double kept = problem.activation[s], held = problem.weight_hold[s];
      for (const Op op : {Op::forward, Op::input_gradient, Op::weight_gradient, Op::backward}) {
        Row& row = rows[4 * s + std::uint32_t(op)];
        row.duration = problem.time({0, std::uint16_t(s), op}), row.rank = rank, row.wire = 2 * rank;
        row.memory = op == Op::forward          ? kept
                     : op == Op::input_gradient ? held - kept
                     : op == Op::backward       ? -kept
                                                : -held;
        if (op == Op::weight_gradient || (op != Op::forward && s == 0)) continue;
        const auto hop = op == Op::forward ? s : s - 1;
        if (hop + 1 >= problem.stages()) continue;
        row.transfer = problem.transfer[hop];
        if (wires) row.held = problem.held[hop], row.wire += problem.wire[hop];
      }
    }
    return rows;
  }

  std::vector<Item> items_;
  std::uint32_t slots_ = 1;
  std::vector<std::uint32_t> ends_;  // by rank: the slot of what its last action sends
  std::vector<std::int64_t> in_flight_FW_, in_flight_FB_;
  bool paired_ = false;
};

// What an order that is a rule depends on.
using Sizes = std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t, std::optional<std::uint32_t>,
                         std::optional<std::uint32_t>, std::optional<std::uint32_t>>;

class Recordings {
 public:
  Replay replay(const Schedule& schedule, const Problem& problem, Transfers transfers) {
    const Sizes sizes{schedule.name, problem.ranks,        problem.microbatches, problem.chunks,
                      problem.group, problem.extra_warmup, problem.waves};
    bool again = false;
    if (const auto known = find(sizes, again)) {
      check(schedule, problem);
      return known->replay(schedule, problem, transfers);
    }
    if (!again) return schedule::replay(schedule, problem, {.transfers = transfers});
    Replay result;
    auto made = std::make_shared<const Recording>(schedule, problem, transfers, result);
    const std::scoped_lock lock(mutex_);
    if (made->paired()) return not_recorded_.insert(sizes), result;
    if (actions_ + made->size() > kMost) recorded_.clear(), actions_ = 0;
    actions_ += made->size();
    recorded_[sizes] = std::move(made);
    return result;
  }

 private:
  static constexpr std::size_t kMost = 4'000'000;  // actions, of 12 bytes

  std::shared_ptr<const Recording> find(const Sizes& sizes, bool& again) {
    const std::scoped_lock lock(mutex_);
    const auto [at, is_new] = recorded_.try_emplace(sizes);
    again = !is_new && !not_recorded_.count(sizes);
    return at->second;
  }

  std::mutex mutex_;
  std::map<Sizes, std::shared_ptr<const Recording>> recorded_;  // null: seen once
  std::set<Sizes> not_recorded_;
  std::size_t actions_ = 0;
};

}  // namespace

Replay replay_again(const Schedule& schedule, const Problem& problem, Transfers transfers) {
  static Recordings recordings;
  const auto placement = schedule.placement;
  const bool chain = problem.edges.empty() && placement != Placement::vocabulary && placement != Placement::listed;
  const bool rule = !schedule.plan && registry().find(schedule.name) == &schedule;
  const bool whole = !schedule.cuts_sequences, unlimited = !problem.memory_limit;
  constexpr std::uint64_t kLong = 1'000'000;  // actions; longer orders would take much memory
  const bool handy = std::uint64_t(problem.stages()) * problem.microbatches * 3 <= kLong;
  if (rule && chain && whole && unlimited && handy) return recordings.replay(schedule, problem, transfers);
  return replay(schedule, problem, {.transfers = transfers});
}

}  // namespace rehearsal::schedule
