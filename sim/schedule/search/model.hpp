// A pipeline problem as the searches see it: plain numbers per stage, with what follows from them for every order.
//
// Times are picoseconds counted from the start of rank 0's first action; memory is in the unit of the problem. All
// micro-batches are alike and every stage takes them in ascending order, each type of action for itself: in any order
// the k-th forward (I, W) of a stage can be given micro-batch k without a later start, so nothing is lost. The model
// owns its numbers and does not change after it is made.
#pragma once
#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearsal::schedule::search {

using Ticks = std::int64_t;

enum class Kind : std::uint8_t { forward, input, weight };

struct Move {
  std::uint16_t stage = 0;
  Kind kind = Kind::forward;
  friend bool operator==(const Move&, const Move&) = default;
};

struct Model {
  Model(const Problem& problem, Placement placement);

  std::uint32_t ranks, stages, microbatches;
  std::vector<std::uint32_t> rank;                    // of a stage
  std::vector<std::vector<std::uint32_t>> stages_of;  // of a rank, ascending
  std::vector<Ticks> forward, input, weight;          // per stage
  std::vector<Ticks> hop;                             // from stage s to s+1 and back; 0 on one rank
  std::vector<double> activation, hold;               // per stage
  double limit;                                       // infinity = none
  // Every rank begins with the first forward of its lowest stage, which cannot be reached earlier nor later than this.
  std::vector<Ticks> first_start;

  // What must be done on the same rank before forward k of a stage, or its memory does not fit: so many input gradients
  // of the rank's highest stage, and so many weight gradients of the stage itself (only known with one stage per rank).
  std::vector<std::uint32_t> inputs_before, weights_before;  // [stage * microbatches + k]

  // Time from the end of an action to the end of the iteration on some rank, minus that rank's first start; so "end +
  // tail" bounds the cost from below. [stage * microbatches + k]
  std::vector<Ticks> forward_tail, input_tail, weight_tail;

  // With one stage per rank whose input gradients free memory, an action that is moved forward in the program of its
  // rank never makes it exceed the limit.
  bool moving_ahead_is_safe;

  std::size_t at(std::uint32_t stage, std::uint32_t k) const { return std::size_t(stage) * microbatches + k; }
  Ticks time(Move move) const {
    return (move.kind == Kind::forward ? forward : move.kind == Kind::input ? input : weight)[move.stage];
  }
  double growth(Move move) const {
    if (move.kind == Kind::forward) return activation[move.stage];
    return move.kind == Kind::input ? hold[move.stage] - activation[move.stage] : -hold[move.stage];
  }
  std::size_t actions() const { return std::size_t(stages) * microbatches * 3; }

 private:
  void find_precedences();
  void find_tails();
};

// The least memory limit that lets every rank run one micro-batch at a time.
double least_limit(const Problem& problem, Placement placement);

}  // namespace rehearsal::schedule::search
