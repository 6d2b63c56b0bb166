// A lowered job on the simulator; and the length of a step alone, without what a summary says of it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "answer/predict.hpp"

namespace rehearsal::answer {

// How the simulator runs a job; refers to it. `engine`: as in backend::RunOptions.
backend::RunOptions run_of(const LoweredJob& lowered, const std::string& engine = "auto");

// Whether the graphs differ at most in what no simulator sees once works have prices: sizes of works and buffers.
bool same_structure(const graph::TaskGraph& a, const graph::TaskGraph& b);
// Whether the simulator gives both jobs the same times: the graphs have one structure, and all works the same prices.
bool same_step(const LoweredJob& a, const LoweredJob& b);
// Whether the timeline of `a` is that of `b`, too: one simulation of the same step gives both.
bool same_timeline(const LoweredJob& a, const LoweredJob& b);
// predict(scenario, options); its timeline is that of `known` where that is the same, and is not simulated again.
Result predict_beside(const Result& known, const scenario::Scenario& scenario, const Options& options);

// Steps that are known. Of many questions (a forecast without a constant, a setting that another one hides) it shows
// only in the priced graph that they ask for the same step; that is not simulated again.
class KnownSteps {
 public:
  void add(const Result& predicted);
  // The iteration of predict(scenario), to the picosecond. Throws what predict throws.
  Time iteration(const scenario::Scenario& scenario);

 private:
  struct Step {
    std::shared_ptr<const LoweredJob> lowered;
    Time iteration;
  };
  std::vector<Step> steps_;
};

}  // namespace rehearsal::answer
