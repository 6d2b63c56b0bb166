// Iterations that overlap because no barrier separates them (sim/design/optimizer-sync.md).
#pragma once
#include <string>

#include "explore/rehearse.hpp"

namespace rehearsal::explore {

// `rehearsed` holds one iteration on its own. Afterwards its timeline is that of the last of
// scenario.simulate.iterations that follow each other with optimizer post-validation: time 0 is the end of the
// iteration before, so that work under its tail has negative times, and the makespan is the period (with the expected
// time of steps taken back).
void post_validate(const scenario::Scenario& scenario, Rehearsed& rehearsed, const std::string& engine);

}  // namespace rehearsal::explore
