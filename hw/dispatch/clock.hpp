// The clock of one machine: monotonic, shared by all its threads and processes, in picoseconds (the last three digits
// are meaningless: it counts nanoseconds).
#pragma once
#include <chrono>

#include "base/units.hpp"

namespace rehearsal::dispatch {

Time now();
Time clock_time(std::chrono::steady_clock::time_point at);  // what it showed at that time

// Sleeps until the clock shows `when`; never returns earlier, and at once if that time has passed.
void sleep_until(Time when);

// Wakes this thread exactly when it asks, not up to 50 us later (the default timer slack of Linux).
void wake_precisely();

}  // namespace rehearsal::dispatch
