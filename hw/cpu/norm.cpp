// Layer normalisation (Ba et al., arXiv 1607.06450): xhat = (x - mean) r, y = gain xhat + bias, with the variance of
// the row itself and r = 1 / sqrt(variance + epsilon). RMS normalisation (Zhang and Sennrich, arXiv 1910.07467) has no
// mean and bias: xhat = x r, r = 1 / sqrt(mean of squares + epsilon). Sums are in double, so they hardly depend on
// order.
#include <cmath>
#include <vector>

#include "cpu/functions.hpp"
#include "kernels/norm.hpp"

namespace rehearsal::cpu {

using kernels::kNormEpsilon;

void layer_norm(Shape shape, const float* x, const float* gain, const float* bias, float* y, float* stats) {
  const std::int64_t n = shape.columns;
  for (std::int64_t i = 0; i < shape.rows; ++i, x += n, y += n, stats += 2) {
    double sum = 0, squares = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += double(x[j]);
    const double mean = sum / double(n);
    for (std::int64_t j = 0; j < n; ++j) squares += (double(x[j]) - mean) * (double(x[j]) - mean);
    stats[0] = float(mean);
    stats[1] = float(1 / std::sqrt(squares / double(n) + kNormEpsilon));
    for (std::int64_t j = 0; j < n; ++j) y[j] = gain[j] * ((x[j] - stats[0]) * stats[1]) + bias[j];
  }
}

// With h = gain dy:  dx = r (h - avg(h) - xhat avg(h xhat)), because mean and r depend on every entry of the row.
void layer_norm_gradient(Shape shape, const float* x, const float* stats, const float* gain, float* dgain, float* dbias,
                         float* dy) {
  const std::int64_t n = shape.columns;
  std::vector<double> gains(static_cast<std::size_t>(n)), biases(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < shape.rows; ++i, x += n, dy += n, stats += 2) {
    const float mean = stats[0], r = stats[1];
    double sum = 0, with_normal = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const double normal = double((x[j] - mean) * r), h = double(gain[j]) * double(dy[j]);
      sum += h, with_normal += h * normal;
      gains[j] += double(dy[j]) * normal, biases[j] += double(dy[j]);
    }
    const float average = float(sum / double(n)), slope = float(with_normal / double(n));
    for (std::int64_t j = 0; j < n; ++j) dy[j] = r * (gain[j] * dy[j] - average - (x[j] - mean) * r * slope);
  }
  for (std::int64_t j = 0; j < n; ++j) {
    dgain[j] = float(double(dgain[j]) + gains[j]);
    dbias[j] = float(double(dbias[j]) + biases[j]);
  }
}

void rms_norm(Shape shape, const float* x, const float* gain, float* y, float* stats) {
  const std::int64_t n = shape.columns;
  for (std::int64_t i = 0; i < shape.rows; ++i, x += n, y += n) {
    double squares = 0;
    for (std::int64_t j = 0; j < n; ++j) squares += double(x[j]) * double(x[j]);
    stats[i] = float(1 / std::sqrt(squares / double(n) + kNormEpsilon));
    for (std::int64_t j = 0; j < n; ++j) y[j] = gain[j] * (x[j] * stats[i]);
  }
}

// With h = gain dy:  dx = r (h - xhat avg(h xhat)), because r depends on every entry of the row.
void rms_norm_gradient(Shape shape, const float* x, const float* stats, const float* gain, float* dgain, float* dy) {
  const std::int64_t n = shape.columns;
  std::vector<double> gains(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < shape.rows; ++i, x += n, dy += n) {
    const float r = stats[i];
    double with_normal = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const double normal = double(x[j] * r), d = double(dy[j]);
      with_normal += double(gain[j]) * d * normal, gains[j] += d * normal;
    }
    const float slope = float(with_normal / double(n));
    for (std::int64_t j = 0; j < n; ++j) dy[j] = r * (gain[j] * dy[j] - x[j] * r * slope);
  }
  for (std::int64_t j = 0; j < n; ++j) dgain[j] = float(double(dgain[j]) + gains[j]);
}

}  // namespace rehearsal::cpu
