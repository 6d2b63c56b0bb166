// Error bands from published runs (configs/error_bands.yaml): the range of measured over predicted time that contains
// 80 % of them. Bands of comparable runs (scenario/run_class.hpp) use predictions with all constants; bands of a GPU
// generation, of all runs and of mixtures of experts use forecasts, which exclude constants from a run's own family.
// Families have equal weight. The band of a wider class contains those of the classes within it: a scenario unlike all
// of them may be as far off as any.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "published/score.hpp"

namespace rehearsal::published {

// By class of comparable runs: the error of the step due to the uncertainty of the constants that affect it, as ln of
// times (widths.hpp). A band of comparable runs is widened by it in quadrature, because similar runs on another machine
// or release have other values of these constants.
using Widths = std::map<std::string, double>;

std::string class_of(const scenario::RunClass& kind);

// The minimum for a band: two similar families say nothing about a third.
inline constexpr std::size_t kFewestFamilies = 5;
// The minimum for a band of comparable runs.
inline constexpr std::size_t kFewestRuns = 8;

// Measured coverage for unseen families: the share of each family's rows inside the band that a scenario would get
// while that family is unknown, from comparable runs of other families, else other families on its GPU generation, else
// all other families. Mean over families.
struct Coverage {
  std::size_t families = 0;
  double inside = 0, width = 0;  // width: mean of the bands' high / low - 1
  double compared = 0;           // share of rows with comparable runs
};
Coverage coverage(const std::vector<Prediction>& predictions, const Widths& widths = {});

// In the format of configs/error_bands.yaml.
std::string bands_yaml(const std::vector<Prediction>& predictions, const Widths& widths = {});

}  // namespace rehearsal::published
