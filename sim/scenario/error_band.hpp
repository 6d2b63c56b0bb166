// How far measured steps of published runs were from predicted ones, by what a run is like (configs/error_bands.yaml).
//
// A band is a half width below and one above the prediction, in ln of time. Each is that of dense models times a factor
// for every feature of the run, fitted so that a tenth of the runs with the feature lie beyond (published/bands.hpp). A
// run that is not comparable with published ones has the factor of what was not known of it: its framework, its GPU.
#pragma once
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scenario/scenario.hpp"

namespace rehearsal::scenario {

// What published runs and predictions are compared by.
struct RunClass {
  std::string gpu, framework, attention, recompute;
  std::string precision;  // 16-bit, fp8, fp4 or fp32
  std::string layout;     // data, sharded (ZeRO 2 and 3), tensor or pipeline: the outermost in use
  // none; coarse; or fine: experts that are no wider than the model.
  std::string experts = "none";
  double sequence = 0, parameters = 0, gpus = 0;
  double tokens = 1e9;  // of a micro-batch, on one GPU
  double waiting = 0;   // share of the step in which the rank that ends last computes nothing
  bool eager = false;   // norms and activations are operations of their own
  bool adapters = false;
  bool one_by_one = false;  // Python launches the kernels of a layer one by one, fused or not
  // Properties that no published run of the tables has, worded for a sentence: "with parameter servers".
  std::vector<std::string> unlike = {};
};
// Of a concrete scenario. `waiting` follows from its prediction.
RunClass run_class(const Scenario& scenario, double waiting = 0);
// All that comparable runs have in common, but for their sizes: "a100-80g-sxm fsdp-2023 flash full 16-bit sharded
// none".
std::string class_of(const RunClass& run);

// Something that makes predictions better or worse.
struct Feature {
  const char* key;                      // in configs/error_bands.yaml
  const char* words;                    // "with eager kernels"
  double (*strength)(const RunClass&);  // 0: does not have it; 1: has it; continuous in sizes and shares
};
std::span<const Feature> features();

// What is not known of a run, from the least to the most: runs of its class; any of its framework; any on its GPU.
enum class Unseen : std::uint8_t { family, framework, gpu };
inline constexpr Unseen kUnseen[] = {Unseen::family, Unseen::framework, Unseen::gpu};
const char* key_of(Unseen unseen);

// The factor by which a scenario's sizes may exceed those of a class's runs and still be comparable; also the unit step
// of distances.
inline constexpr double kReach = 2;

// Smallest and largest sizes among runs.
struct SizesOfRuns {
  static constexpr double kFar = std::numeric_limits<double>::infinity();
  std::pair<double, double> sequence{kFar, 0}, parameters{kFar, 0}, gpus{kFar, 0};

  void add(const RunClass& run);
  // Steps of kReach to the nearest size that the runs cover, for the size that is furthest away; 0 within.
  double distance(const RunClass& run) const;
};

// Range of measured time divided by predicted time.
struct BandRange {
  double low = 1, high = 1;
  bool holds(double ratio) const { return ratio >= low && ratio <= high; }
};

// Half widths in ln of time, or factors on them.
struct Sides {
  double low = 1, high = 1;
};

struct BandModel {
  Sides base{.05, .05};
  std::map<std::string, Sides> factors;  // by the key of a feature or of Unseen; 1 if there is none
  SizesOfRuns sizes;                     // of all runs
  struct Known {
    SizesOfRuns sizes;
    std::size_t rows = 0;
    std::string tables;  // "27 mosaic_mpt"
  };
  std::map<std::string, Known> classes;                 // by class_of()
  std::map<std::string, std::size_t> gpus, frameworks;  // that runs were compared on, and their number

  Sides factor(const std::string& key) const;
  // The half widths of a run, by its features alone.
  Sides of_features(const RunClass& run) const;
};

// The band of a run. Sizes beyond those of comparable runs move it towards that of a run which is like none, reached
// one step away. Beyond the sizes of all runs each further step, and each property that no run has, adds half of the
// width on either side.
struct Told {
  BandRange range;
  const BandModel::Known* comparable = nullptr;
  double beyond = 0;               // steps beyond all runs
  std::vector<std::string> wider;  // why, the most important first
};
Told told(const RunClass& run, const BandModel& model);

// Of a prediction. Empty if no published run says anything about it; `basis` then says why.
ErrorBand error_band(const Scenario& scenario, double waiting);

}  // namespace rehearsal::scenario
