// The clock of one machine: monotonic and common to all its threads and processes, in picoseconds (of which the last
// three digits mean nothing: it counts nanoseconds).
#pragma once
#include <chrono>

#include "base/units.hpp"

namespace rehearsal::dispatch {

Time now();
Time clock_time(std::chrono::steady_clock::time_point at);  // what it showed then

// Sleeps until the clock shows `when`; returns at once if it does already, never before.
void sleep_until(Time when);

// Lets this thread be woken when it asked for, not up to 50 us later (the default timer slack of Linux).
void wake_precisely();

}  // namespace rehearsal::dispatch
