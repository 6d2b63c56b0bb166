// An effect of the cost model that can be left out of a prediction (listed in explore/ablation.hpp).
#pragma once
#include <string_view>

#include "plan/plan.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::answer {

struct Effect {
  std::string_view name, what;  // "bubble", and one line on what is left out
  // The changes before and after the model is planned; either may be null.
  void (*in_scenario)(scenario::Concrete&) = nullptr;
  void (*in_plan)(plan::Plan&) = nullptr;
  bool bubble = false;  // subtracted from the simulated iteration instead: it belongs to no stage
  bool alone = false;   // no contention
};

}  // namespace rehearsal::answer
