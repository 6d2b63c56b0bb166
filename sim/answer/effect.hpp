// One effect of the cost model that may be left out of a prediction (explore/ablation.hpp has the list).
#pragma once
#include <string_view>

#include "plan/plan.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::answer {

struct Effect {
  std::string_view name, what;  // "bubble", one line of what is left out
  // Either may be null: what to change before and after the model is planned.
  void (*in_scenario)(scenario::Concrete&) = nullptr;
  void (*in_plan)(plan::Plan&) = nullptr;
  bool bubble = false;  // taken off the simulated iteration instead: it is no part of any stage
  bool alone = false;   // nobody feels anybody
};

}  // namespace rehearsal::answer
