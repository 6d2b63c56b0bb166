// For schedules whose order does not depend on the memory limit: refuse a problem whose limit it would break.
#pragma once
#include "schedule/schedule.hpp"

namespace rehearsal::schedule {

// Throws UserError when a rank of `plan` holds more than problem.memory_limit; the nearest legal limit is its peak.
void require_within_limit(const char* name, Placement placement, const Problem& problem, const Planned& plan);

}  // namespace rehearsal::schedule
