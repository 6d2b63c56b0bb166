// Iterations that overlap because no barrier separates them (sim/design/optimizer-sync.md).
#pragma once
#include "answer/lowered_job.hpp"
#include "backend/backend.hpp"

namespace rehearsal::answer {

// Before: `timeline` is that of one iteration on its own. After: that of the last of scenario.simulate.iterations
// consecutive ones with optimizer post-validation. Time 0 is the end of the previous iteration, so work that overlaps
// its tail has negative times, and the makespan is the period (including the expected
// time of rollbacks).
// Adds to the job's assumptions and warnings.
void post_validate(LoweredJob& lowered, timeline::Timeline& timeline, const std::string& engine);

}  // namespace rehearsal::answer
