// Rules that every graph must satisfy. Uses Boost.Graph over a read-only view.
#pragma once
#include <string>
#include <vector>

#include "graph/task_graph.hpp"

namespace rehearsal::graph {

// Throws InternalError that names the offender: an edge to a later task, a buffer freed twice or used outside its life,
// an endpoint whose two ends differ, a group whose members disagree in number or work, and a cycle through lanes,
// channels and groups, printed task by task.
void validate(const TaskGraph& graph);

// The cycle as labels, or nothing. Includes lane order, channels and groups.
std::vector<std::string> find_cycle(const TaskGraph& graph);

}  // namespace rehearsal::graph
