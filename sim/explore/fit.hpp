// Factors of a machine that real runs determine: how fast its GPUs train, what its NICs and its links reach, how long
// its hosts launch. Least squares of the logarithms of predicted over measured steps; a factor that the runs do not fix
// to within kKnown is left as it is and said to be open.
#pragma once
#include <string>
#include <vector>

#include "explore/sensitivity.hpp"

namespace rehearsal::explore {

struct MeasuredRun {
  std::string name;
  Asked asked;         // `prediction` is set
  double seconds = 0;  // of an iteration, measured
};

struct FittedFactor {
  std::string key;      // "cluster.gpu.sustained_clock"
  std::string what;     // "the clock at which GPUs train"
  std::string was, is;  // values as --set takes them
  double change = 1;    // of the value
  double half = 0;      // of the 95 % interval, relative
  double share = 0;     // of the time that it decides, the mean over the runs
  bool known = false;   // fitted; else left, and `why` says what would determine it
  std::string why;
};

struct Fit {
  std::vector<FittedFactor> factors;  // those that are known first
  std::vector<double> before, after;  // predicted over measured, by run
  double scatter = 0;                 // of the logarithms that remains, or that is assumed where nothing remains
  bool assumed_scatter = false;
};
inline constexpr double kKnown = .25;  // half an interval; beyond it a factor is not known
inline constexpr double kUsualScatter =
    .05;  // of steps of equal runs about a good model, where runs are too few to tell

// Throws UserError if there is no run.
Fit fit_factors(const std::vector<MeasuredRun>& runs);

}  // namespace rehearsal::explore
