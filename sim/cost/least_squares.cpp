#include "cost/least_squares.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace rehearsal::cost {
namespace {

// Solves a symmetric system by Cholesky; nothing when it is singular.
std::optional<std::vector<double>> solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; j++) {
    for (std::size_t k = 0; k < j; k++) a[j][j] -= a[j][k] * a[j][k];
    if (a[j][j] < 1e-12) return std::nullopt;  // columns have length 1: collinear ones leave next to nothing
    a[j][j] = std::sqrt(a[j][j]);
    for (std::size_t i = j + 1; i < n; i++) {
      for (std::size_t k = 0; k < j; k++) a[i][j] -= a[i][k] * a[j][k];
      a[i][j] /= a[j][j];
    }
  }
  for (std::size_t i = 0; i < n; i++) {
    for (std::size_t k = 0; k < i; k++) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; k++) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

}  // namespace

// By trying all subsets of at most five terms: the optimum is the least-squares solution of the subset of its positive
// terms. The work term comes first, so that a single sample becomes a rate, not a constant.
NonNegative non_negative_least_squares(std::span<const Counts> rows, std::size_t count) {
  Counts lengths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < count; i++) lengths[i] += row[i] * row[i];
  for (auto& l : lengths) l = std::sqrt(l);
  NonNegative best;
  for (std::size_t bits = 1; bits < (std::size_t{1} << count); bits++) {
    const std::size_t set = (bits & ~std::size_t{3}) | (bits & 1 ? 2 : 0) | (bits & 2 ? 1 : 0);
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < count; i++)
      if (set >> i & 1 && lengths[i] > 0) chosen.push_back(i);
    const auto n = chosen.size();
    if (n == 0 || n > rows.size()) continue;
    std::vector<std::vector<double>> a(n, std::vector<double>(n));
    std::vector<double> b(n);
    for (const auto& row : rows)
      for (std::size_t i = 0; i < n; i++) {
        const double x = row[chosen[i]] / lengths[chosen[i]];
        b[i] += x;
        for (std::size_t j = 0; j < n; j++) a[i][j] += x * row[chosen[j]] / lengths[chosen[j]];
      }
    const auto x = solve(a, b);
    if (!x || std::any_of(x->begin(), x->end(), [](double v) { return !(v >= 0); })) continue;
    NonNegative s;
    for (std::size_t i = 0; i < n; i++) s.factors[chosen[i]] = (*x)[i] / lengths[chosen[i]];
    s.loss = 0;
    for (const auto& row : rows) {
      double sum = -1;
      for (std::size_t i = 0; i < count; i++) sum += row[i] * s.factors[i];
      s.loss += sum * sum;
    }
    if (s.loss < best.loss * (1 - 1e-9) - 1e-15) best = s;
  }
  return best;
}

std::vector<Bytes> knees(std::vector<Bytes> sizes) {
  std::vector<Bytes> all{Bytes()};
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  // Two sizes on either side at least: a knee must not explain one point by itself.
  for (std::size_t i = 1; i + 2 < sizes.size(); i++) all.push_back(sizes[i]);
  return all;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace rehearsal::cost
