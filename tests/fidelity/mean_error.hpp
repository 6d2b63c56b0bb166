// Means of relative errors, predicted / measured - 1, and their cells in a printed table.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace rehearsal::fidelity {

inline double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.) / double(values.size());
}
inline double absolute_mean(std::vector<double> values) {
  for (auto& v : values) v = std::abs(v);
  return mean(values);
}
// "   6.8   -1.2": the mean of their sizes, and their mean.
inline std::string percent(const std::vector<double>& errors) {
  return errors.empty() ? "     -      -"
                        : fmt::format("{:6.1f} {:+6.1f}", 100 * absolute_mean(errors), 100 * mean(errors));
}

}  // namespace rehearsal::fidelity
