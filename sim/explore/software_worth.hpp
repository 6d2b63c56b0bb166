// What the software is worth where a scenario names none: the same step with the other frameworks that may be meant.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::explore {

using SoftwareTimes = std::vector<std::pair<std::string, Time>>;  // of an iteration
// In the order of scenario.other_software; empty where the file names its software. `sets` are those with which the
// scenario was loaded from its file, which is read again: from a pipe there is nothing more to read. What another
// framework cannot run is left out.
SoftwareTimes with_other_software(const scenario::Scenario& scenario, const std::vector<std::string>& sets);

// The sentence for reports: how far the others lie from `iteration`. Empty where software was named.
std::string software_worth(const scenario::Scenario& scenario, const SoftwareTimes& others, Time iteration);

}  // namespace rehearsal::explore
