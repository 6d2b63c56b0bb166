// One question from end to end: a scenario becomes a task graph, is priced, simulated, and ready to be reported.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "graph/task_graph.hpp"
#include "scenario/scenario.hpp"
#include "schedule/replay.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::explore {

// The graph of a scenario with its prices: what any backend needs.
struct Prepared {
  graph::TaskGraph graph;
  std::vector<Time> durations;  // one per WorkId
  schedule::Problem problem;    // stage times and memory, as the schedule saw them
  bool blocking_sends = false;
  Flops model_flops;                 // of one iteration, all GPUs; 0 for abstract scenarios
  Flops hardware_flops;              // executed, with recomputation
  std::vector<std::int64_t> layers;  // of each stage; empty for abstract scenarios
  std::vector<std::string> assumptions, warnings;
};

struct Effect;

// `without`: one effect of the cost model left out (ablation.hpp); null = the whole model.
Prepared prepare(const scenario::Scenario& scenario, const Effect* without = nullptr);
// One Time per work: by the cost model, or as given.
std::vector<Time> price(const scenario::Scenario& scenario, std::span<const graph::Work> works);

struct Rehearsed {
  Prepared prepared;
  timeline::Timeline timeline;
};

Rehearsed rehearse(const scenario::Scenario& scenario, const std::string& engine = "auto",
                   const Effect* without = nullptr);

}  // namespace rehearsal::explore
