// Leaves one effect out of the cost model: the error budget of `validate --against` consists of these. An effect whose
// removal changes no prediction is dead code.
#pragma once
#include <span>
#include <string_view>

#include "answer/effect.hpp"

namespace rehearsal::explore {

using answer::Effect;

// Every effect, in the order in which they contribute to a step.
std::span<const Effect> effects();
const Effect* find_effect(std::string_view name);

}  // namespace rehearsal::explore
