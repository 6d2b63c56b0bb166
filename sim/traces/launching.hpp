// Whether the host kept up: how kernels follow each other when they were launched in time, what a launch takes, and how
// much of the idle time comes before kernels that were launched late.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "timeline/intervals.hpp"
#include "traces/trace.hpp"

namespace rehearsal::traces {

// Of equal things: how many, their mean, and what a tenth, half and nine tenths of them do not exceed.
struct Spread {
  std::uint64_t count = 0;
  Time mean, p10, median, p90;
};
Spread spread_of(std::vector<Time> all);

// Longer pauses of a stream are more than one kernel's end and the next one's start.
inline constexpr Time kLongestPause{20'000'000};  // 20 us

struct Launching {
  std::uint64_t kernels = 0;  // whose launch was recorded
  Spread call;                // the call on the host
  // From the end of a kernel to the start of the next on its stream, which the host had launched kAhead before, while
  // nothing else runs.
  Spread pause;
  // Of the mean step: all that runs nothing before a kernel whose launch was recorded, and what of it comes before
  // kernels whose launch had not returned when the GPU had nothing left to do.
  Time idle, late;
  // From one launch to the next of a thread, where that was late, by pass: what the host takes for a kernel.
  std::array<Spread, kPasses> each;
};
inline constexpr Time kAhead{10'000'000};  // 10 us: a launch that is this old has reached the GPU

// `windows`: steps, disjoint and in order.
Launching launching(const Trace& trace, std::span<const timeline::Interval> windows, std::size_t steps);

}  // namespace rehearsal::traces
