// Predicts every row of tables of published runs, each from the scenario that its columns describe.
#pragma once
#include <string>
#include <vector>

#include "explore/ablation.hpp"
#include "published/row_scenario.hpp"
#include "published/score.hpp"

namespace rehearsal::published {

struct ValidationRun {
  FrameworkDetail framework = FrameworkDetail::knobs;
  const answer::Effect* without = nullptr;  // one effect left out
  bool forecast = true;                     // each row also without the constants that its family alone gave
  std::vector<std::string> sets;            // "framework.dropout_forward=1.1", of all rows, after their own
  bool memory = true;                       // peaks and fits as well; the error budget does without
  unsigned jobs = 1;
};

// In the order of `runs`. A row whose scenario is refused is not judged, for the reason given.
std::vector<Prediction> predict(const std::vector<Run>& runs, const ValidationRun& options);

}  // namespace rehearsal::published
