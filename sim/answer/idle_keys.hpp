// Keys that a user set and that move nothing: what if a number were another one, and the answer is the same?
#pragma once
#include <string>
#include <vector>

#include "answer/question.hpp"

namespace rehearsal::answer {

// How often tasks run each work, of all ranks that the graph stands for.
std::vector<double> runs_of_works(const graph::TaskGraph& graph);

// One warning for each key of cluster, GPU, training and software that the file or --set gives and without which
// nothing would differ, with what it is about. `question`: this scenario's graph with its prices.
std::vector<std::string> idle_keys(const scenario::Scenario& scenario, const Question& question);

// A sentence for each number of the software's file that nobody measured and that this answer rests on.
std::vector<std::string> assumed_software(const scenario::Scenario& scenario, const Question& question);

}  // namespace rehearsal::answer
