// Predicts every row of tables of published runs, each from the scenario that its columns describe.
#pragma once
#include <string>
#include <vector>

#include "explore/ablation.hpp"
#include "published/row_scenario.hpp"
#include "published/score.hpp"

namespace rehearsal::published {

struct Against {
  SoftwareDetail software = SoftwareDetail::knobs;
  const answer::Effect* without = nullptr;  // one effect left out
  bool memory = true;                       // peaks and fits as well; the error budget does without
  unsigned jobs = 1;
};

// In the order of `runs`. A row whose scenario is refused is not judged, for the reason given.
std::vector<Prediction> predict(const std::vector<Run>& runs, const Against& options);

}  // namespace rehearsal::published
