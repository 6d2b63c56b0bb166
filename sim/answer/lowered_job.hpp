// A scenario as a priced task graph: the input of every backend, before anything runs.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/routine.hpp"
#include "graph/task_graph.hpp"
#include "lower/lowering.hpp"
#include "plan/data_volume.hpp"
#include "scenario/scenario.hpp"
#include "schedule/schedule.hpp"

namespace rehearsal::answer {

struct Effect;

// Owns all its data; immutable once a result refers to it.
struct LoweredJob {
  scenario::Scenario scenario;
  graph::TaskGraph graph;
  std::vector<Time> durations;                     // one per WorkId
  std::vector<Time> held;                          // likewise; how long a message occupies its wire; empty: not at all
  std::vector<graph::Footprint> footprints;        // likewise; the resources that they use
  std::vector<graph::Volume> volumes;              // likewise; bytes moved; empty for abstract scenarios
  std::optional<plan::DataVolume> data_volume;     // if a framework has replicas, in closed form
  std::optional<lower::ResourceMap> resource_map;  // for contention; nothing: no work slows another
  schedule::Problem problem;                       // stage times and memory, as the schedule saw them
  bool blocking_sends = false;
  Flops model_flops;     // of one iteration, all GPUs; 0 for abstract scenarios
  Flops hardware_flops;  // executed, with recomputation
  // With loss scaling: a step whose gradients overflow, and its executed FLOPs. Filled in by predict().
  struct Skipped {
    Time step;
    Flops hardware_flops;
  };
  std::optional<Skipped> skipped;
  std::vector<std::int64_t> layers;  // of each stage, in model order; empty for abstract scenarios
  // The traffic of a stage edge for one micro-batch, if stages have layouts of their own or form no chain: values (the
  // activation, skip connections), messages and bytes of all of them, forward and backward, and the time of the slower
  // direction on its own.
  struct StageEdge {
    std::uint32_t from = 0, to = 0;
    std::size_t values = 1;
    lower::StageTransfers::Volume forward, backward;
    Time transfer;
  };
  std::vector<StageEdge> edges;
  std::vector<std::string> assumptions, warnings;
};

// `without`: one effect of the cost model left out; null = the whole model. `assumed`: also says which constants that
// were not measured the step depends on, which prices it once more for each. Throws UserError when degrees, batch,
// model and cluster do not fit together, or when a graph of this schedule would be wrong.
LoweredJob prepare(const scenario::Scenario& scenario, const Effect* without = nullptr, bool assumed = true);

// Throws what prepare() throws; returns its warnings beyond those of the file, from the smallest graph of the scenario
// (one task per stage, one rank per class of equal ranks). Used by `rehearse check`.
std::vector<std::string> check(const scenario::Scenario& scenario);

// One Time per work, and how long messages occupy their wires: from the cost model, or as given.
struct Prices {
  std::vector<Time> durations, held;
};
Prices price(const scenario::Scenario& scenario, std::span<const graph::Work> works);

// How the collectives of a job are performed as they were priced: one per work; empty for abstract scenarios.
std::vector<collective::Execution> executions(const LoweredJob& lowered);

}  // namespace rehearsal::answer
