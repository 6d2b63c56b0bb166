// What a backend performs by itself, without a scenario around it: the messages of a plan, or one collective.
#pragma once
#include <vector>

#include "graph/task_graph.hpp"

namespace rehearsal::lower {

struct Alone {
  graph::TaskGraph graph;
  // By WorkId: each message or collective alone, and how long a message occupies its sender's wire; for transports that
  // move no bytes.
  std::vector<Time> durations, held;
};

// One collective, or tokens on their way to experts, among `ranks`, of which `per_node` are on each node.
Alone one_collective(const graph::Work& work, std::uint32_t ranks, std::uint32_t per_node, Time lasts);

}  // namespace rehearsal::lower
