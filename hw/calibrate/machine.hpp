// Identifies this machine, and measures how much it disturbs measurements.
#pragma once
#include <cstdint>
#include <string>

#include "base/units.hpp"
#include "calibrate/kernel_times.hpp"

namespace rehearsal::calibrate {

struct Machine {
  std::string cpu, system, compiler;
  std::int64_t cores = 1;  // available to this process
  Bytes second_cache;      // L2 per core; a guess if the system does not tell
};
Machine this_machine();
std::string utc_now();  // "2025-01-31T12:00:00Z"

// By how much a sleep of 1 ms is too long.
Spread timer_overshoot(int repetitions);
// Time of one fixed piece of arithmetic (about 1 ms, no memory), on all ranks at once.
Spread noise(unsigned ranks, int repetitions);

}  // namespace rehearsal::calibrate
