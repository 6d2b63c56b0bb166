// The whole question of `rehearse balance`, from loads to placements and their results.
//
// Without a trace there is one step, whose loads are known and used for the placement. With a trace, a placement is
// made only from loads of earlier steps: the first from step 0, then every `every` steps a new one from the mean of
// those steps, or of a window of the latest ones. The baseline keeps the first placement throughout.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "balance/method.hpp"

namespace rehearsal::balance {

// What GPUs that only run the model hold: no gradients, optimizer states and kept activations.
struct Serving {
  double expert = 0;            // bytes of the weights of one expert of a layer
  double others = 0;            // and of all weights that are no experts, which each GPU has
  double cache = 0;             // of the keys and values of one token
  double tokens = 0;            // in the cache of a GPU
  std::optional<Bytes> memory;  // of a GPU
};

struct Question {
  std::string name;
  Problem problem;  // with a trace, its weights are those of step 0
  std::string method = "best";
  Time time_limit = seconds(1);
  std::vector<std::int32_t> previous;  // phy2log of all layers; empty: no placement yet
  Bytes bytes_per_expert{};            // weight bytes of one expert in one layer
  double move_cost = 0;                // max over mean that justifies moving all replicas of a layer
  std::vector<std::vector<Loads>> trace;
  std::uint32_t every = 0;   // steps between placements of a trace; 0 = only one placement
  std::uint32_t window = 0;  // steps whose mean load the next placement is made from; 0 = those since the last one
  double threshold = 1;      // max over mean of that load, mean of all layers, from which experts are placed again
  std::optional<Bandwidth> in_node, between_nodes;  // at which a GPU receives weights
  Time layer_time;  // of the experts of a layer where all GPUs have the same load; 0 = unknown
  std::optional<Serving> serving;
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
  std::optional<double> moving;             // seconds until the GPU that receives most has its weights
  Loads max_over_mean, kept_max_over_mean;  // per layer: with the current placement, with the first one kept
};

// Bytes of a GPU that only runs the model: the one with the most slots.
struct Held {
  double experts = 0, others = 0, cache = 0;
  double redundant = 0;  // of `experts`: copies beyond the first, mean of all GPUs
  double all() const { return experts + others + cache; }
  std::optional<bool> fits;
  std::optional<double> tokens;  // that the cache has room for
};

struct Answer {
  Shape shape;
  Placement placement;               // in use at the end
  std::vector<LayerBalance> layers;  // at the end; `before` = the previous placement, or experts in order
  bool from_previous = false;
  Moves moves;  // over all layers
  Bytes moved_bytes{};
  std::vector<TraceStep> steps;
  std::optional<double> moving;  // seconds, of all moves
  std::optional<double> saved;   // seconds of the trace by which the first placement, kept, is slower
  std::optional<Held> held;
};

// All errors in the question; keys are those of the input file.
std::vector<Fault> faults(const Question& question);

// Throws UserError if the question has errors. Results do not depend on the number of threads.
Answer answer(const Question& question, unsigned threads = 1);

}  // namespace rehearsal::balance
