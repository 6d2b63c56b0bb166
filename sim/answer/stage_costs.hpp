// The first half of every prediction: a scenario's model cut into stages, priced, before any order or graph exists.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "answer/effect.hpp"
#include "cost/cost_model.hpp"
#include "lower/lowering.hpp"
#include "plan/data_volume.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::answer {

struct StageCosts {
  cost::CostModel cost;
  lower::Lowering lowering;
  schedule::Problem problem;                    // with the knobs of the scenario's schedule
  std::vector<std::int64_t> layers;             // of each stage of one copy
  std::optional<plan::DataVolume> data_volume;  // of a framework with replicas
  double kept = 1;                              // of the rows of experts
  std::vector<std::string> warnings, assumptions;
};

// Of a concrete scenario. Throws UserError when degrees, batch, model and cluster do not fit together.
StageCosts stage(const scenario::Scenario& scenario, const Effect* without = nullptr);

}  // namespace rehearsal::answer
