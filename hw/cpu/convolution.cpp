// The short convolution before a scan and the gated norm behind it. Equations: kernels/convolution.hpp. Sums over rows
// are in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/exponential.hpp"
#include "cpu/functions.hpp"
#include "kernels/norm.hpp"

namespace rehearsal::cpu {
namespace {

float sigmoid(float x) { return 1 / (1 + exponential(-x)); }
float silu(float x) { return x * sigmoid(x); }
float silu_slope(float x) {
  const float s = sigmoid(x);
  return s + x * s * (1 - s);
}

// Row j: the taps j of the rank's own columns; the last one is their bias.
std::vector<std::vector<float>> own_taps(const Convolution& shape, const float* taps) {
  std::vector<std::vector<float>> own(static_cast<std::size_t>(shape.taps + 1));
  for (std::int64_t j = 0; j <= shape.taps; ++j)
    for (std::int64_t c = 0; c < shape.columns(); ++c)
      own[j].push_back(taps[shape.tap_rows.of(c) * (shape.taps + 1) + j]);
  return own;
}

// A row at a position of a sequence, from -taps + 1 on; null: zeros.
const float* input(const Convolution& shape, std::int64_t sequence, std::int64_t position, const float* x,
                   const float* before) {
  if (position >= 0) return x + (sequence * shape.positions + position) * shape.columns();
  return shape.piece.follows ? before + ((sequence + 1) * (shape.taps - 1) + position) * shape.columns() : nullptr;
}

void sums(const Convolution& shape, const std::vector<std::vector<float>>& taps, std::int64_t sequence,
          std::int64_t position, const float* x, const float* before, float* u) {
  std::copy(taps.back().begin(), taps.back().end(), u);
  for (std::int64_t j = 0; j < shape.taps; ++j)
    if (const float* row = input(shape, sequence, position - shape.taps + 1 + j, x, before))
      for (std::int64_t c = 0; c < shape.columns(); ++c) u[c] += taps[j][c] * row[c];
}

}  // namespace

void convolve(const Convolution& shape, const float* x, const float* taps, const float* before, float* y) {
  const auto own = own_taps(shape, taps);
  for (std::int64_t row = 0; row < shape.rows; ++row, y += shape.columns()) {
    sums(shape, own, row / shape.positions, row % shape.positions, x, before, y);
    for (std::int64_t c = 0; c < shape.columns(); ++c) y[c] = silu(y[c]);
  }
}

void convolve_gradient(const Convolution& shape, const float* x, const float* taps, const float* before,
                       const float* dy, const float* after, float* dtaps, float* dx, float* dbefore) {
  const std::int64_t m = shape.columns(), last = shape.taps - 1, s = shape.positions;
  const auto own = own_taps(shape, taps);
  std::vector<double> added(static_cast<std::size_t>((shape.taps + 1) * m));
  std::vector<float> du(static_cast<std::size_t>(m));
  std::fill_n(dx, shape.rows * m, 0.f);
  if (shape.piece.follows) std::fill_n(dbefore, shape.rows / s * last * m, 0.f);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const std::int64_t sequence = row / s, position = row % s;
    sums(shape, own, sequence, position, x, before, du.data());
    for (std::int64_t c = 0; c < m; ++c) du[c] = dy[row * m + c] * silu_slope(du[c]);
    for (std::int64_t c = 0; c < m; ++c) added[shape.taps * m + c] += double(du[c]);
    for (std::int64_t j = 0; j < shape.taps; ++j) {
      const std::int64_t from = position - last + j;
      const float* met = input(shape, sequence, from, x, before);
      if (!met) continue;
      float* to = from >= 0 ? dx + (sequence * s + from) * m : dbefore + ((sequence + 1) * last + from) * m;
      for (std::int64_t c = 0; c < m; ++c) {
        to[c] += own[j][c] * du[c];
        added[j * m + c] += double(du[c]) * double(met[c]);
      }
    }
  }
  if (shape.piece.goes_on)
    for (std::int64_t sequence = 0; sequence < shape.rows / s; ++sequence)
      for (std::int64_t i = 0; i < last * m; ++i)
        dx[((sequence + 1) * s - last) * m + i] += after[sequence * last * m + i];
  for (std::int64_t c = 0; c < m; ++c)
    for (std::int64_t j = 0; j <= shape.taps; ++j) {
      float& to = dtaps[shape.tap_rows.of(c) * (shape.taps + 1) + j];
      to = float(double(to) + added[j * m + c]);
    }
}

void gated_norm(const NormedRuns& shape, const float* x, const float* z, const float* gain, float* y, float* stats) {
  const std::int64_t width = shape.columns / shape.runs;
  for (std::int64_t i = 0; i < shape.rows * shape.runs; ++i, x += width, z += width, y += width) {
    double squares = 0;
    for (std::int64_t j = 0; j < width; ++j) {
      y[j] = x[j] * silu(z[j]);
      squares += double(y[j]) * double(y[j]);
    }
    stats[i] = float(1 / std::sqrt(squares / double(width) + kernels::kNormEpsilon));
    for (std::int64_t j = 0; j < width; ++j) y[j] = gain[i % shape.runs * width + j] * (y[j] * stats[i]);
  }
}

void gated_norm_gradient(const NormedRuns& shape, const float* x, const float* z, const float* stats, const float* gain,
                         const float* dy, float* dgain, float* dx, float* dz) {
  const std::int64_t width = shape.columns / shape.runs;
  std::vector<double> gains(static_cast<std::size_t>(shape.columns));
  for (std::int64_t i = 0; i < shape.rows * shape.runs; ++i) {
    const std::int64_t at = i * width, run = i % shape.runs * width;
    const float r = stats[i];
    double with_normal = 0;
    for (std::int64_t j = 0; j < width; ++j) {
      const double normal = double(x[at + j] * silu(z[at + j]) * r), d = double(dy[at + j]);
      with_normal += double(gain[run + j]) * d * normal, gains[run + j] += d * normal;
    }
    const float slope = float(with_normal / double(width));
    for (std::int64_t j = 0; j < width; ++j) {
      const float by = silu(z[at + j]), dv = r * (gain[run + j] * dy[at + j] - x[at + j] * by * r * slope);
      dx[at + j] = dv * by, dz[at + j] = dv * x[at + j] * silu_slope(z[at + j]);
    }
  }
  for (std::int64_t j = 0; j < shape.columns; ++j) dgain[j] = float(double(dgain[j]) + gains[j]);
}

}  // namespace rehearsal::cpu
