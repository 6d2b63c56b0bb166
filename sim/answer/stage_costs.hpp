// First half of every prediction: the model cut into stages and priced, before there is an order or a graph.
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
  std::vector<Time> durations;                  // of the works until then
  schedule::Problem problem;                    // with the knobs of the scenario's schedule
  std::vector<std::int64_t> layers;             // by stage, of one copy
  std::optional<plan::DataVolume> data_volume;  // if a framework has replicas
  double kept = 1;                              // share of expert rows that is not dropped
  std::vector<std::string> warnings, assumptions;
};

// For concrete scenarios. Throws UserError when degrees, batch, model and cluster do not fit together.
StageCosts stage(const scenario::Scenario& scenario, const Effect* without = nullptr);

}  // namespace rehearsal::answer
