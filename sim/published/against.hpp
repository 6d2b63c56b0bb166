// Predicts every row of tables of published runs, each from the scenario that the row describes.
#pragma once
#include <string>
#include <vector>

#include "base/parallel.hpp"
#include "explore/ablation.hpp"
#include "published/row_scenario.hpp"
#include "published/score.hpp"

namespace rehearsal::published {

struct ValidationRun {
  FrameworkDetail framework = FrameworkDetail::knobs;
  const answer::Effect* without = nullptr;  // one effect of the cost model left out
  bool forecast = true;                     // also predict each row without the constants from its own family
  std::vector<std::string> sets;            // "framework.dropout_forward=1.1": for all rows, after their own settings
  bool memory = true;                       // also peaks and fits; the error budget does not need them
  unsigned jobs = 1;
  Done done = {};  // counts different scenarios
};

// In the order of `runs`. A row whose scenario is refused is not judged, and says why.
std::vector<Prediction> predict(const std::vector<Run>& runs, const ValidationRun& options);

}  // namespace rehearsal::published
