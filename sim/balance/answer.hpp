// The whole question of `rehearse balance`, from loads to placements and what they are worth.
//
// Without a trace there is one step: the loads are known, the placement is made for them. With a trace, the placement
// in use at a step was made from loads that had been seen by then: the first from step 0, and after every `every` steps
// a new one from the mean of those steps. The baseline is the first placement, kept for ever.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "balance/method.hpp"

namespace rehearsal::balance {

struct Question {
  std::string name;
  Problem problem;  // its weights are those of step 0 of a trace
  std::string method = "best";
  Time time_limit = seconds(1);
  std::vector<std::int32_t> previous;  // phy2log of all layers; empty: nothing stands yet
  Bytes bytes_per_expert{};            // weights of one expert of one layer
  double move_cost = 0;                // max over mean that moving all replicas of a layer is worth
  std::vector<std::vector<Loads>> trace;
  std::uint32_t every = 0;  // steps between two placements of a trace; 0 = never again
};

// Of one layer.
struct LayerBalance {
  Loads before, after;  // of every GPU
  double before_max_over_mean = 1, max_over_mean = 1, lower_bound = 1;
  Moves moves;
};

struct TraceStep {
  bool rebalanced = false;
  Moves moves;
  Loads max_over_mean, kept_max_over_mean;  // per layer: with the placement in use, with the first one kept
};

struct Answer {
  Shape shape;
  Placement placement;               // in use at the end
  std::vector<LayerBalance> layers;  // at the end; `before` = the previous placement, or experts in order
  bool from_previous = false;
  Moves moves;  // all of them
  Bytes moved_bytes{};
  std::vector<TraceStep> steps;
};

// Everything that is wrong with the question; the keys are those of the input file.
std::vector<Fault> faults(const Question& question);

// Throws UserError when something is wrong. Results do not depend on the number of threads.
Answer answer(const Question& question, unsigned threads = 1);

}  // namespace rehearsal::balance
