// The whole question of `rehearse balance`, from loads to placements and their results.
//
// Without a trace there is one step, whose loads are known and used for the placement. With a trace, a placement is
// made only from loads of earlier steps: the first from step 0, then every `every` steps a new one from the mean of
// those steps. The baseline keeps the first placement throughout.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "balance/method.hpp"

namespace rehearsal::balance {

struct Question {
  std::string name;
  Problem problem;  // with a trace, its weights are those of step 0
  std::string method = "best";
  Time time_limit = seconds(1);
  std::vector<std::int32_t> previous;  // phy2log of all layers; empty: no placement yet
  Bytes bytes_per_expert{};            // weight bytes of one expert in one layer
  double move_cost = 0;                // max over mean that justifies moving all replicas of a layer
  std::vector<std::vector<Loads>> trace;
  std::uint32_t every = 0;  // steps between placements of a trace; 0 = only one placement
};

// Result for one layer.
struct LayerBalance {
  std::uint32_t layer = 0;
  Loads before, after;  // of every GPU
  double before_max_over_mean = 1, max_over_mean = 1, lower_bound = 1;
  Moves moves;
};

struct TraceStep {
  bool rebalanced = false;
  Moves moves;
  Loads max_over_mean, kept_max_over_mean;  // per layer: with the current placement, with the first one kept
};

struct Answer {
  Shape shape;
  Placement placement;               // in use at the end
  std::vector<LayerBalance> layers;  // at the end; `before` = the previous placement, or experts in order
  bool from_previous = false;
  Moves moves;  // over all layers
  Bytes moved_bytes{};
  std::vector<TraceStep> steps;
};

// All errors in the question; keys are those of the input file.
std::vector<Fault> faults(const Question& question);

// Throws UserError if the question has errors. Results do not depend on the number of threads.
Answer answer(const Question& question, unsigned threads = 1);

}  // namespace rehearsal::balance
