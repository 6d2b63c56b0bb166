// What makes a published run comparable with a prediction: the same machine, framework and choices, and sizes of the
// same order. Tables of runs are sorted by it into bands (published/report.hpp), scenarios look their band up by it.
#pragma once
#include <string>

#include "scenario/scenario.hpp"

namespace rehearsal::scenario {

struct RunClass {
  std::string gpu, software, attention, recompute;
  std::string precision;  // 16-bit, fp8 or fp32
  std::string layout;     // data, sharded (ZeRO 2 and 3), tensor or pipeline: the outermost that is there
  double sequence = 0, parameters = 0, gpus = 0;
  // "a100" of a100-80g-sxm.
  std::string generation() const { return gpu.substr(0, gpu.find('-')); }
};
// Of a concrete scenario.
RunClass run_class(const Scenario& scenario);

// How far beyond the sizes of the runs of a band a scenario may lie and still be comparable: a factor.
inline constexpr double kReach = 2;

}  // namespace rehearsal::scenario
