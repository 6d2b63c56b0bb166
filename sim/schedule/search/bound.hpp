// A lower bound on the cost of every completion of a partial order.
//
// 1. Heads: no remaining action starts before its inputs can have arrived, nor before the rest of what must precede it
// on
//    its own rank has run (earlier micro-batches, forwards before gradients, and what memory forces out first).
// 2. Per rank, the remaining actions may be interrupted at will and only keep heads and tails: Jackson's preemptive
//    schedule (longest tail first) is then optimal and gives the bound (Carlier 1982).
#pragma once
#include <vector>

#include "schedule/search/state.hpp"

namespace rehearsal::schedule::search {

class Bound {
 public:
  // Looks at the micro-batches up to `horizon` after the last one that has begun: the others only count through the
  // tails, which weakens the bound little and makes it cost the same wherever the state is.
  explicit Bound(const Model& model, std::uint32_t horizon = UINT32_MAX);

  // At least `enough` when the bound reaches it: then the exact value does not matter to the caller.
  Ticks operator()(const State& state, Ticks enough);
  // Sum of what the ranks alone need: tells apart states of one bound. Of the last call that did not reach `enough`.
  Ticks pressure() const { return pressure_; }

 private:
  // Weight gradients needed before forward k of a stage when `inputs` input gradients have run: entries for inputs =
  // inputs_before .. k, one row per (stage, k). Only with one stage per rank.
  void tabulate();
  Ticks release_work(const State& state, std::uint32_t s, std::uint32_t k) const;
  void find_heads(const State& state);
  Ticks one_rank(const State& state, std::uint32_t r, Ticks enough);

  struct Queue {
    const Ticks *head, *tail;
    std::uint32_t next, end;
    Ticks time, left;
  };

  const Model& model_;
  std::vector<std::size_t> row_;
  std::vector<std::uint32_t> needed_;
  std::vector<Ticks> forward_head_, input_head_, weight_head_;
  std::vector<Queue> queues_;
  Ticks pressure_ = 0;
  std::uint32_t horizon_, end_ = 0;  // end_: micro-batches that the state at hand is bounded with
};

}  // namespace rehearsal::schedule::search
