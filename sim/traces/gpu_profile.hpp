// A profile of a GPU from traces: matrix products, fused attention and memory-bound kernels whose shapes were recorded.
//
// A profile's time is from start to start of equal launches (cost/gpu_times.hpp), and a trace has the time from start
// to end: the median pause between kernels of the trace is added, where calls are recorded that of kernels which were
// launched in time. It is also the gap between kernels (cost::LaunchTimes::stream). Caches are as warm as the run left
// them. Collectives whose transfer several traces tell become curves (collective_times.hpp).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cost/profile.hpp"
#include "scenario/files.hpp"
#include "traces/trace.hpp"

namespace rehearsal::traces {

struct FromTraces {
  cost::Profile profile;
  std::vector<std::string> notes;  // what was left out, and what was added
};

// Throws UserError where the traces are of several types of GPU, name none, or have no samples that can be used.
FromTraces gpu_profile(std::span<const Trace> traces, const KernelClasses& classes,
                       const scenario::Files& files = scenario::disk());

}  // namespace rehearsal::traces
