// Keys that a user set and that move nothing: what if a number were another one, and the answer is the same?
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/task_graph.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::answer {

// How often tasks run each work, of all ranks that the graph stands for.
std::vector<double> runs_of_works(const graph::TaskGraph& graph);

// One warning for each key of cluster, GPU, training and software that the file or --set gives and without which
// nothing would differ, with what it is about. `graph` and `durations`: of this scenario.
std::vector<std::string> idle_keys(const scenario::Scenario& scenario, const graph::TaskGraph& graph,
                                   std::span<const Time> durations);

// A sentence for each number of the software's file that nobody measured and that this answer rests on.
std::vector<std::string> assumed_software(const scenario::Scenario& scenario, const graph::TaskGraph& graph,
                                          std::span<const Time> durations);

}  // namespace rehearsal::answer
