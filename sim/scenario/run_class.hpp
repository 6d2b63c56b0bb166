// The properties that make a published run comparable with a prediction: same machine, framework and choices, sizes of
// the same order. Runs are grouped by them into bands (published/report.hpp); scenarios look up their band by them.
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
  std::string layout;     // data, sharded (ZeRO 2 and 3), tensor or pipeline: the outermost in use
  double sequence = 0, parameters = 0, gpus = 0;
  bool experts = false;  // a mixture of experts
  // Properties that no published run of the tables has, worded for a sentence: "with parameter servers".
  std::vector<std::string> unlike = {};
  // The "a100" in a100-80g-sxm.
  std::string generation() const { return gpu.substr(0, gpu.find('-')); }
};
// Of a concrete scenario.
RunClass run_class(const Scenario& scenario);

// The factor by which a scenario's sizes may exceed those of a band's runs and still be comparable; also the unit step
// of distances.
inline constexpr double kReach = 2;

// Smallest and largest sizes among the runs.
struct SizesOfRuns {
  static constexpr double kFar = std::numeric_limits<double>::infinity();
  std::pair<double, double> sequence{kFar, 0}, parameters{kFar, 0}, gpus{kFar, 0};

  void add(const RunClass& run);
  void take_in(const SizesOfRuns& other);
  // Steps of kReach to the nearest size that the runs cover, for the size that is furthest away; 0 within.
  double distance(const RunClass& run) const;
};

// Range of measured time divided by predicted time.
struct BandRange {
  double low = 1, high = 1;
  bool holds(double ratio) const { return ratio >= low && ratio <= high; }
  void take_in(const BandRange& other) { low = std::min(low, other.low), high = std::max(high, other.high); }
  // Interpolates in ln towards a band that contains this one: `way` 0 is this band, 1 the other.
  BandRange towards(const BandRange& other, double way) const;
  // Widened about its middle, in ln, by this share of its width.
  BandRange wider(double share) const;
};

struct KnownBand {
  BandRange range;
  SizesOfRuns sizes;
};

// Bands are nested: comparable runs, GPUs of the same generation, all runs. The less a scenario resembles the runs, the
// wider its band. Sizes beyond those of comparable runs move it towards the generation's band, reached one step away,
// and from there towards that of all runs; beyond, each further step, and each property that no run has, adds half
// the width on either side. `among` is the band with the most weight. Mixtures of experts use their own band in place
// of `all` and have no narrower one. `comparable` and `generation` may be null.
struct Told {
  BandRange range;
  ErrorBand::Among among;
  double beyond = 0;  // steps beyond the deciding runs
};
Told told(const RunClass& run, const KnownBand* comparable, const KnownBand* generation, const KnownBand& all);

}  // namespace rehearsal::scenario
