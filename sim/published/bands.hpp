// Error bands out of published runs (configs/error_bands.yaml): where 80 % of them fell, measured over predicted time.
// Of comparable runs (scenario/run_class.hpp), by what is predicted with all constants; of a generation of GPUs, of all
// and of mixtures of experts, by forecasts, which leave out what a family of runs gave itself. Each family weighs as
// much as any other. The band of a wider class holds those of the classes within it: what is like none of them may be
// as far off as any.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "published/score.hpp"

namespace rehearsal::published {

// By class of comparable runs: how far the step may be off because the constants that act on it are, as ln of times
// (widths.hpp). A band of comparable runs is wider by it, in quadrature: whoever runs the like on another machine or
// release finds other values of them.
using Widths = std::map<std::string, double>;

std::string class_of(const scenario::RunClass& kind);

// Fewer families make no band of their own: two that are alike say nothing of a third.
inline constexpr std::size_t kFewestFamilies = 5;
// Fewer runs are not compared with.
inline constexpr std::size_t kFewestRuns = 8;

// Of each family the share of rows that fall into the band that a scenario is told of while its family is unknown: of
// comparable runs of others, else of others on its generation of GPUs, else of all others. The mean over families;
// measured coverage of bands for what was never seen.
struct Coverage {
  std::size_t families = 0;
  double inside = 0, width = 0;  // width: of the band, mean of high / low - 1
  double compared = 0;           // share of rows that found comparable ones
};
Coverage coverage(const std::vector<Prediction>& predictions, const Widths& widths = {});

// In the form of configs/error_bands.yaml.
std::string bands_yaml(const std::vector<Prediction>& predictions, const Widths& widths = {});

}  // namespace rehearsal::published
