// A resharding plan as a task graph, so that a backend can perform it.
#pragma once
#include <vector>

#include "graph/task_graph.hpp"
#include "reshard/answer.hpp"

namespace rehearsal::lower {

struct Resharded {
  graph::TaskGraph graph;
  // By WorkId: each message alone, and how long it occupies its sender's wire; for transports that move no bytes.
  std::vector<Time> durations, held;
};
// One rank per device, those of the source first; a mesh row is a node. Each rank posts its messages in the order of
// the plan (reshard::carries), every chunk of a broadcast by itself, and forwards one when it has arrived.
Resharded resharded(const reshard::Question& question, const reshard::Answer& answer);

}  // namespace rehearsal::lower
