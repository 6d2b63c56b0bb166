#include "cost/kernel_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.hpp"

namespace rehearsal::cost {
namespace {

enum class Shape : std::uint8_t { matrix, attention, traffic };

constexpr std::array<std::string_view, 5> kMatrix{"call", "flop", "output", "weight", "input"};
constexpr std::array<std::string_view, 5> kAttention{"call", "product", "score", "row", "element"};
constexpr std::array<std::string_view, 4> kTraffic{"call", "byte", "far_byte", "row"};

Shape shape_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::linear:
    case KernelKind::linear_input_gradient:
    case KernelKind::linear_weight_gradient:
      return Shape::matrix;
    case KernelKind::attention:
    case KernelKind::attention_gradient:
      return Shape::attention;
    default:
      return Shape::traffic;
  }
}

// Kinds whose dims are rows and columns; the others have elements alone.
bool has_rows(KernelKind kind) {
  switch (kind) {
    case KernelKind::gelu:
    case KernelKind::gelu_gradient:
    case KernelKind::add:
    case KernelKind::clear:
    case KernelKind::copy:
    case KernelKind::add_own_shard:
    case KernelKind::sgd:
    case KernelKind::adamw:
    case KernelKind::adamw_keep:
    case KernelKind::adamw_rollback:
      return false;
    default:
      return true;
  }
}

using Counts = std::array<double, kMostTerms>;

Counts counts(const Kernel& kernel, Bytes knee) {
  const auto d = [&](std::size_t i) { return double(kernel.dims[i]); };
  switch (shape_of(kernel.kind)) {
    case Shape::matrix:
      return {1, 2 * d(0) * d(1) * d(2), d(0) * d(1), d(1) * d(2), d(0) * d(2)};
    case Shape::attention: {
      const double heads = d(0) * d(1);
      const double pairs = heads * (d(4) != 0 ? d(2) * (d(2) + 1) / 2 : d(2) * d(2));
      return {1, pairs * d(3), pairs, heads * d(2), heads * d(2) * d(3)};
    }
    case Shape::traffic: {
      const double moved = double(kernel.traffic().count());
      const double far = knee.count() > 0 ? std::max(0., moved - double(knee.count())) : 0;
      return {1, moved, far, has_rows(kernel.kind) ? d(0) : 0, 0};
    }
  }
  return {};
}

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

struct Solution {
  Counts seconds{};
  double loss = std::numeric_limits<double>::infinity();  // sum of squared relative errors
};

// Non-negative least squares by trying all subsets of at most five terms: the optimum is the least-squares solution of
// the subset of its positive terms. The work term comes first, so that a single sample becomes a rate, not a constant.
Solution solve_subsets(std::span<const KernelSample* const> samples, Bytes knee, std::size_t count) {
  std::vector<Counts> rows;  // per second of measured time: every target is 1
  Counts lengths{};
  for (const auto* s : samples) {
    rows.push_back(counts(s->kernel, knee));
    for (std::size_t i = 0; i < count; i++) {
      rows.back()[i] /= to_seconds(s->p50);
      lengths[i] += rows.back()[i] * rows.back()[i];
    }
  }
  for (auto& l : lengths) l = std::sqrt(l);
  Solution best;
  for (std::size_t bits = 1; bits < (std::size_t{1} << count); bits++) {
    const std::size_t set = (bits & ~std::size_t{3}) | (bits & 1 ? 2 : 0) | (bits & 2 ? 1 : 0);
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < count; i++)
      if (set >> i & 1 && lengths[i] > 0) chosen.push_back(i);
    const auto n = chosen.size();
    if (n == 0 || n > samples.size()) continue;
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
    Solution s;
    for (std::size_t i = 0; i < n; i++) s.seconds[chosen[i]] = (*x)[i] / lengths[chosen[i]];
    s.loss = 0;
    for (const auto& row : rows) {
      double sum = -1;
      for (std::size_t i = 0; i < count; i++) sum += row[i] * s.seconds[i];
      s.loss += sum * sum;
    }
    if (s.loss < best.loss * (1 - 1e-9) - 1e-15) best = s;
  }
  return best;
}

// Knees worth trying: between the traffics that were measured.
std::vector<Bytes> knees(std::span<const KernelSample* const> samples) {
  std::vector<Bytes> all{Bytes()};
  std::vector<std::int64_t> traffic;
  for (const auto* s : samples) traffic.push_back(s->kernel.traffic().count());
  std::sort(traffic.begin(), traffic.end());
  traffic.erase(std::unique(traffic.begin(), traffic.end()), traffic.end());
  // Two sizes on either side at least: a knee must not explain one point by itself.
  for (std::size_t i = 1; i + 2 < traffic.size(); i++) all.push_back(Bytes(traffic[i]));
  return all;
}

KernelFit fit_once(std::span<const KernelSample* const> samples) {
  const auto kind = samples.front()->kernel.kind;
  KernelFit fit;
  Solution best;
  for (const Bytes knee : has_knee(kind) ? knees(samples) : std::vector{Bytes()}) {
    const auto s = solve_subsets(samples, knee, terms(kind).size());
    // A knee is a parameter more: it must earn a twentieth.
    if (s.loss < best.loss * (knee == Bytes() ? 1 : .95)) best = s, fit.knee = knee;
  }
  INVARIANT(std::isfinite(best.loss), "no term of a kernel explains its samples");
  fit.seconds = best.seconds;
  return fit;
}

double relative_error(const KernelFit& fit, const KernelSample& sample) {
  return std::abs(fit.time(sample.kernel) / to_seconds(sample.p50) - 1);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace

std::span<const std::string_view> terms(KernelKind kind) {
  switch (shape_of(kind)) {
    case Shape::matrix:
      return kMatrix;
    case Shape::attention:
      return kAttention;
    case Shape::traffic:
      break;
  }
  return kTraffic;
}

bool has_knee(KernelKind kind) { return shape_of(kind) == Shape::traffic; }

double KernelFit::time(const Kernel& kernel) const {
  const auto c = counts(kernel, knee);
  double sum = 0;
  for (std::size_t i = 0; i < kMostTerms; i++) sum += seconds[i] * c[i];
  return sum;
}

KernelFit fit(std::span<const KernelSample> samples) {
  INVARIANT(!samples.empty(), "a fit needs a sample");
  std::vector<const KernelSample*> all;
  for (const auto& s : samples) {
    INVARIANT(s.kernel.kind == samples.front().kernel.kind && s.p50 > Time(), "samples of one kind, above zero");
    all.push_back(&s);
  }
  KernelFit result = fit_once(all);
  std::vector<double> inside, outside;
  for (std::size_t i = 0; i < all.size(); i++) {
    inside.push_back(relative_error(result, *all[i]));
    if (all.size() == 1) break;
    auto others = all;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    outside.push_back(relative_error(fit_once(others), *all[i]));
  }
  result.error = median(inside);
  result.worst = *std::max_element(inside.begin(), inside.end());
  if (!outside.empty()) {
    result.left_out = median(outside);
    result.left_out_worst = *std::max_element(outside.begin(), outside.end());
  }
  return result;
}

}  // namespace rehearsal::cost
