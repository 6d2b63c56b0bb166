// Leaving one effect out of the cost model: what the error budget of `validate --against` is made of. An effect whose
// removal changes no prediction is dead code.
#pragma once
#include <span>
#include <string_view>

#include "plan/plan.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::explore {

struct Effect {
  std::string_view name, what;  // "bubble", one line of what is left out
  // Either may be null: what to change before and after the model is planned.
  void (*in_scenario)(scenario::Concrete&) = nullptr;
  void (*in_plan)(plan::Plan&) = nullptr;
  bool bubble = false;  // taken off the simulated iteration instead: it is no part of any stage
};

// Every effect, in the order in which a step is made of them.
std::span<const Effect> effects();
const Effect* find_effect(std::string_view name);

}  // namespace rehearsal::explore
