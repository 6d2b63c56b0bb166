// A partial order that grows action by action, with the time of every action in it, and what may come next.
//
// An action starts when its rank is free and its input has arrived. Invariants: done[] counts are ascending prefixes of
// the micro-batches; memory of a rank is the sum that the replay would form, in the same order of additions. The model
// is borrowed.
#pragma once
#include <array>
#include <vector>

#include "schedule/search/model.hpp"

namespace rehearsal::schedule::search {

struct Candidate {
  Move move;
  Ticks start = 0, end = 0;
};

struct State {
  explicit State(const Model& model);

  struct Stage {
    std::array<std::uint32_t, 3> done{};  // by Kind
  };
  struct Rank {
    Ticks free = 0;
    double memory = 0;
    // The program's last action, if it was a weight gradient: what the rank could have run in its place.
    Ticks weight_start = -1;
    double memory_before_weight = 0;
    std::uint64_t waiting = 0;  // moves (bit 3 * chunk + kind) that wait for another action of the rank on purpose
  };
  struct Undo {
    Rank rank;
    Move move;
  };

  const Model* model;
  std::vector<Stage> stage;
  std::vector<Rank> rank;
  std::vector<Ticks> forward_end, input_end;  // [model->at(stage, k)], of what is done

  std::uint32_t done(std::uint32_t s, Kind kind) const { return stage[s].done[static_cast<std::size_t>(kind)]; }

  Undo apply(const Candidate& next) {
    const Model& m = *model;
    const std::uint32_t s = next.move.stage;
    Rank& r = rank[m.rank[s]];
    const Undo undo{r, next.move};
    if (next.move.kind == Kind::weight) {
      r.weight_start = next.start;
      r.memory_before_weight = r.memory;
    } else {
      (next.move.kind == Kind::forward ? forward_end : input_end)[m.at(s, done(s, next.move.kind))] = next.end;
      r.weight_start = -1;
    }
    r.memory += m.growth(next.move);
    r.free = next.end;
    r.waiting = 0;
    ++stage[s].done[static_cast<std::size_t>(next.move.kind)];
    return undo;
  }
  void revert(const Undo& undo) {
    rank[model->rank[undo.move.stage]] = undo.rank;
    --stage[undo.move.stage].done[static_cast<std::size_t>(undo.move.kind)];
  }

  // Earliest start of the next action of this kind on this stage; false when something it needs is not done yet.
  bool reachable(Move move, Ticks& start) const {
    const Model& m = *model;
    const std::uint32_t s = move.stage, k = done(s, move.kind);
    start = rank[m.rank[s]].free;
    switch (move.kind) {
      case Kind::forward:
        if (k == m.microbatches) return false;
        if (s == 0) return true;
        if (done(s - 1, Kind::forward) <= k) return false;
        start = std::max(start, forward_end[m.at(s - 1, k)] + m.hop[s - 1]);
        return true;
      case Kind::input:
        if (k == done(s, Kind::forward)) return false;
        if (s + 1 == m.stages) return true;
        if (done(s + 1, Kind::input) <= k) return false;
        start = std::max(start, input_end[m.at(s + 1, k)] + m.hop[s]);
        return true;
      case Kind::weight:
        return k < done(s, Kind::input);
    }
    return false;
  }
  // Does the action fit into the memory of its rank, and can every micro-batch in flight still be finished after it?
  bool fits(Move move, double memory) const;
  bool fits(Move move) const { return fits(move, rank[model->rank[move.stage]].memory); }

  // The actions among which a schedule that leaves no room for an earlier action must choose now: those on one rank
  // that can start before the first action to end would end (Giffler and Thompson 1960). Empty: finished, a dead end,
  // or (unless `never_empty`) a state that an earlier choice shows to be no better than another one.
  void candidates(std::vector<Candidate>& found, bool never_empty = false) const;
  std::uint64_t bit(Move move) const {
    return std::uint64_t(1) << (3 * chunk_[move.stage] + static_cast<unsigned>(move.kind));
  }

 private:
  bool wasted_weight(Move move, Ticks arrival) const;

  std::vector<std::uint32_t> chunk_;  // of a stage, on its rank
};

}  // namespace rehearsal::schedule::search
