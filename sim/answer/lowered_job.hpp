// A scenario as a task graph with its prices: what any backend needs, before anything runs.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/task_graph.hpp"
#include "lower/lowering.hpp"
#include "plan/data_volume.hpp"
#include "scenario/scenario.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::answer {

struct Effect;

// Owns everything; immutable once an answer refers to it.
struct LoweredJob {
  scenario::Scenario scenario;
  graph::TaskGraph graph;
  std::vector<Time> durations;  // one per WorkId
  std::vector<Time> held;       // likewise: of messages, how long they hold their wire; empty = nothing does
  std::vector<graph::Footprint> footprints;         // likewise: what they take from each other
  std::vector<graph::Volume> volumes;               // likewise: the bytes that they move; empty for abstract scenarios
  std::optional<plan::DataVolume> data_volume;      // of a framework with replicas, in closed form
  std::optional<lower::ResourceMap> resource_map;  // where they do; nothing: nobody feels anybody
  schedule::Problem problem;                        // stage times and memory, as the schedule saw them
  bool blocking_sends = false;
  Flops model_flops;     // of one iteration, all GPUs; 0 for abstract scenarios
  Flops hardware_flops;  // executed, with recomputation
  // Where the loss is scaled: a step whose gradients overflow, and what it executes. Filled in by predict().
  struct Skipped {
    Time step;
    Flops hardware_flops;
  };
  std::optional<Skipped> skipped;
  std::vector<std::int64_t> layers;  // of each stage, in model order; empty for abstract scenarios
  // What goes over each edge between stages for one micro-batch, where these are cut otherwise or no chain: values (the
  // activation, skip connections), messages and bytes of all of them, forward and back, and how long the slower
  // direction takes by itself.
  struct StageEdge {
    std::uint32_t from = 0, to = 0;
    std::size_t values = 1;
    lower::StageTransfers::Volume forward, backward;
    Time transfer;
  };
  std::vector<StageEdge> edges;
  std::vector<std::string> assumptions, warnings;
};

// `without`: one effect of the cost model left out; null = the whole model. Throws UserError when degrees, batch, model
// and cluster do not fit together, or a graph of this schedule would not tell the truth.
LoweredJob prepare(const scenario::Scenario& scenario, const Effect* without = nullptr);

// Throws what prepare() throws, and returns what it warns of beyond the file, from the smallest graph of the scenario
// (a task per stage, a rank for all that do the same): what `rehearse check` asks.
std::vector<std::string> check(const scenario::Scenario& scenario);

// One Time per work, and how long messages hold their wires: by the cost model, or as given.
struct Prices {
  std::vector<Time> durations, held;
};
Prices price(const scenario::Scenario& scenario, std::span<const graph::Work> works);

}  // namespace rehearsal::answer
