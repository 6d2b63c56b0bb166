// Iterations that overlap because no barrier separates them (sim/design/optimizer-sync.md).
#pragma once
#include "answer/lowered_job.hpp"
#include "backend/backend.hpp"

namespace rehearsal::answer {

// `timeline` is that of one iteration on its own. Afterwards it is that of the last of
// scenario.simulate.iterations that follow each other with optimizer post-validation: time 0 is the end of the
// iteration before, so that work under its tail has negative times, and the makespan is the period (with the expected
// time of steps taken back).
// Adds to the assumptions and warnings of the lowered.
void post_validate(LoweredJob& lowered, timeline::Timeline& timeline, const std::string& engine);

}  // namespace rehearsal::answer
