// Cross-entropy over a vocabulary that is sharded over the tensor ranks (Megatron-LM, arXiv 1909.08053, section 3):
// each rank reduces each row of its slice to three numbers, and only those are exchanged.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "cpu/exponential.hpp"
#include "cpu/functions.hpp"
#include "kernels/loss.hpp"

namespace rehearsal::cpu {
namespace {

// A rank's summary of a row: part[T, 3].
enum Entry : std::int64_t { largest, sum, target_logit, kEntries };

void check(std::int64_t rows, std::span<const std::int32_t> targets) {
  INVARIANT(static_cast<std::int64_t>(targets.size()) == rows, "one target per row");
}
// Columns of the slice that are not padding.
std::int64_t real_columns(Shape shape, Slice slice) {
  return std::clamp<std::int64_t>(slice.vocabulary - slice.first, 0, shape.columns);
}

// Both reductions run in separate lanes, which become vectors.
float maximum(const float* x, std::int64_t n) {
  float most[kLanes];
  std::fill_n(most, kLanes, -std::numeric_limits<float>::infinity());
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) most[lane] = std::max(most[lane], x[j + lane]);
  for (; j < n; ++j) most[0] = std::max(most[0], x[j]);
  return *std::max_element(most, most + kLanes);
}
double sum_of_exponentials(const float* x, std::int64_t n, float most) {
  double sums[kLanes] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += double(exponential(x[j + lane] - most));
  for (; j < n; ++j) sums[0] += double(exponential(x[j] - most));
  return std::accumulate(sums, sums + kLanes, 0.);
}

}  // namespace

// A slice of only padding has largest = -inf and sum = 0, which have no effect below.
void cross_entropy_local(Shape shape, Slice slice, std::span<const std::int32_t> targets, const float* logits,
                         float* part) {
  check(shape.rows, targets);
  const std::int64_t columns = real_columns(shape, slice);
  for (const std::int32_t target : targets) {
    const float most = maximum(logits, columns);
    part[largest] = most;
    part[sum] = float(sum_of_exponentials(logits, columns, most));
    const std::int64_t own = target - slice.first;
    part[target_logit] = own >= 0 && own < columns ? logits[own] : 0;
    logits += shape.columns, part += kEntries;
  }
}

double cross_entropy(std::int64_t rows, std::int64_t ranks, const float* parts, float* lse) {
  double loss = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto entry = [&](std::int64_t rank, Entry e) { return double(parts[(rank * rows + i) * kEntries + e]); };
    double most = -std::numeric_limits<double>::infinity(), total = 0, target = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) most = std::max(most, entry(rank, largest));
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      total += entry(rank, sum) * std::exp(entry(rank, largest) - most);
      target += entry(rank, target_logit);
    }
    const double whole = most + std::log(total);
    lse[i] = float(whole);
    loss += whole - target;
  }
  return loss;
}

void cross_entropy_gradient(Shape shape, Slice slice, std::span<const std::int32_t> targets, std::int64_t total,
                            const float* lse, float* logits) {
  check(shape.rows, targets);
  const std::int64_t columns = real_columns(shape, slice);
  const float weight = float(1 / double(total));
  for (std::int64_t i = 0; i < shape.rows; ++i, logits += shape.columns) {
    for (std::int64_t j = 0; j < columns; ++j) logits[j] = exponential(logits[j] - lse[i]);
    const std::int64_t own = targets[i] - slice.first;
    if (own >= 0 && own < columns) logits[own] -= 1;
    for (std::int64_t j = 0; j < columns; ++j) logits[j] *= weight;
    std::fill(logits + columns, logits + shape.columns, 0.f);
  }
}

double squared_error(Shape shape, const float* y, const float* target) {
  return summed(kernels::SquaredErrors<float>{y, target, shape.elements(), false});
}

// Gradient of squares / (2 total columns).
void squared_error_gradient(Shape shape, std::int64_t total, const float* y, const float* target, float* dy) {
  const float weight = float(1 / (double(total) * double(shape.columns)));
  for (std::int64_t i = 0; i < shape.elements(); ++i) dy[i] = (y[i] - target[i]) * weight;
}

}  // namespace rehearsal::cpu
