// Keys that a user set and that move nothing: what if a number were another one, and the answer is the same?
#pragma once
#include <string>
#include <vector>

#include "answer/predict.hpp"

namespace rehearsal::answer {

// How often tasks run each work, of all ranks that the graph stands for.
std::vector<double> runs_of_works(const graph::TaskGraph& graph);

// One warning for each key of cluster, GPU, training, framework and experts that the file or --set gives and without
// which nothing in the answer would differ: no time, no byte on any tier or link, no rate, no cost. Other values are
// read as a user would give them, `reread`, so that what follows from a key moves with it.
std::vector<std::string> unused_settings(const Result& predicted, const Reread& reread);

// A sentence for each number of the framework's file that nobody measured and that this answer rests on.
std::vector<std::string> assumed_framework(const scenario::Scenario& scenario, const LoweredJob& lowered);

}  // namespace rehearsal::answer
