// What makes a published run comparable with a prediction: the same machine, framework and choices, and sizes of the
// same order. Tables of runs are sorted by it into bands (published/report.hpp), scenarios look their band up by it.
#pragma once
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "scenario/scenario.hpp"

namespace rehearsal::scenario {

struct RunClass {
  std::string gpu, framework, attention, recompute;
  std::string precision;  // 16-bit, fp8 or fp32
  std::string layout;     // data, sharded (ZeRO 2 and 3), tensor or pipeline: the outermost that is there
  double sequence = 0, parameters = 0, gpus = 0;
  bool experts = false;  // a mixture of experts
  // What no published run of the tables was, as sentences have it: "with parameter servers".
  std::vector<std::string> unlike = {};
  // "a100" of a100-80g-sxm.
  std::string generation() const { return gpu.substr(0, gpu.find('-')); }
};
// Of a concrete scenario.
RunClass run_class(const Scenario& scenario);

// How far beyond the sizes of the runs of a band a scenario may lie and still be comparable: a factor. It is also the
// step in which distances are counted.
inline constexpr double kReach = 2;

// The least and the most that runs had.
struct SizesOfRuns {
  static constexpr double kFar = std::numeric_limits<double>::infinity();
  std::pair<double, double> sequence{kFar, 0}, parameters{kFar, 0}, gpus{kFar, 0};

  void add(const RunClass& run);
  void take_in(const SizesOfRuns& other);
  // Steps of kReach from the nearest run that may be among them, of the size that is furthest off; 0 within.
  double distance(const RunClass& run) const;
};

// Measured over predicted time.
struct BandRange {
  double low = 1, high = 1;
  bool holds(double ratio) const { return ratio >= low && ratio <= high; }
  void take_in(const BandRange& other) { low = std::min(low, other.low), high = std::max(high, other.high); }
  // From here to a band that holds this one, as ln: `way` 0 is here, 1 there.
  BandRange towards(const BandRange& other, double way) const;
  // About its middle, as ln, by this share of its width.
  BandRange wider(double share) const;
};

struct KnownBand {
  BandRange range;
  SizesOfRuns sizes;
};

// A narrower class of runs lies within the band of a wider one, so that a scenario is told of a wider band the less it
// is like: of comparable runs; with sizes beyond theirs on the way to the band of its generation of GPUs, which counts
// alone a step away; likewise to that of all runs; from there half the width more on either side for each step of size,
// and for each thing that no run was. Which of the three decides most is `among`. Mixtures of experts have a band of
// their own in the place of all (`all`), and none that is narrower. `comparable` and `generation` may be null.
struct Told {
  BandRange range;
  ErrorBand::Among among;
  double beyond = 0;  // steps from the runs that decide
};
Told told(const RunClass& run, const KnownBand* comparable, const KnownBand* generation, const KnownBand& all);

}  // namespace rehearsal::scenario
