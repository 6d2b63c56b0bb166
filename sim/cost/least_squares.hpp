// Least squares of relative errors with factors that cannot be negative: a time is a sum of costs.
#pragma once
#include <array>
#include <limits>
#include <span>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::cost {

inline constexpr std::size_t kMostTerms = 5;
using Counts = std::array<double, kMostTerms>;  // how often each term occurs; [0] is the constant one, [1] the work

// One more parameter, such as a knee, must reduce the loss by a twentieth, or the simpler model stays. Chosen.
inline constexpr double kMustEarn = .95;

struct NonNegative {
  Counts factors{};
  double loss = std::numeric_limits<double>::infinity();  // sum of squared relative errors
};
// Of the first `count` terms. Each row: counts per unit of what was measured, so that every target is 1.
NonNegative non_negative_least_squares(std::span<const Counts> rows, std::size_t count);

// Sizes at which a knee is worth trying: those measured, but the outermost; first 0 = none.
std::vector<Bytes> knees(std::vector<Bytes> sizes);

double median(std::vector<double> values);  // at least one

}  // namespace rehearsal::cost
