// Error bands from published runs (configs/error_bands.yaml; sim/scenario/error_band.hpp says what a band is): half
// widths by feature, fitted so that of the runs with a feature a tenth lie beyond the band on either side.
//
// A run is a sample up to four times: as predicted, and as predicted without what its family, its framework and its GPU
// gave, which is what a run unlike those is told of. Tables weigh the same; how much is known is counted in families.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "published/score.hpp"

namespace rehearsal::published {

scenario::BandModel fit_bands(const std::vector<Prediction>& predictions);

// Measured coverage: the share of runs inside bands that were made without their family of runs, and the mean width
// (high / low - 1), by what the runs are. Means over tables.
struct Coverage {
  std::string what;  // "all", "with eager kernels"
  std::size_t tables = 0;
  double inside = 0, width = 0;
};
// The first is of all runs.
std::vector<Coverage> coverage(const std::vector<Prediction>& predictions, unsigned jobs = 1);

// In the format of configs/error_bands.yaml.
std::string bands_yaml(const std::vector<Prediction>& predictions);

}  // namespace rehearsal::published
