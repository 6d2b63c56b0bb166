// Keys that a user set without effect: would another value give the same result?
#pragma once
#include <string>
#include <vector>

#include "answer/predict.hpp"

namespace rehearsal::answer {

// How often each work runs, over all ranks that the graph stands for.
std::vector<double> runs_of_works(const graph::TaskGraph& graph);

// One warning for each key of cluster, GPU, training, framework and experts that the file or --set gives and that does
// not affect the result: no time, no byte on any tier or link, no rate, no cost. Other values are read with `reread`,
// as if a user gave them, so that values derived from the key change with it.
std::vector<std::string> unused_settings(const Result& predicted, const Reread& reread);

// One sentence for each unmeasured number of the framework's file that affects this result.
std::vector<std::string> assumed_framework(const scenario::Scenario& scenario, const LoweredJob& lowered);

}  // namespace rehearsal::answer
