// Around the scan of a mixer with a state: the short causal convolution before it, and the gated norm behind it.
// Layouts: table of KernelKind (base/kernels.hpp).
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/elementwise.hpp"
#include "kernels/norm.hpp"

namespace rehearsal::kernels {

// The row of the taps that each of the m columns [x: m - 2 g | B: g | C: g] of a rank has, among those of all c ranks.
struct TapRows {
  std::int64_t columns = 0, keys = 0, ranks = 1, index = 0;
  REHEARSAL_BOTH std::int64_t of(std::int64_t column) const {
    const std::int64_t values = columns - 2 * keys;
    if (column < values) return index * values + column;
    const std::int64_t past = column - values, run = past < keys ? 0 : 1;
    return ranks * (values + run * keys) + index * keys + past - run * keys;
  }
};

// y_t = silu(u_t), u_t = bias + sum_j taps_j x_{t-k+1+j}, column by column (Gu and Dao, arXiv 2312.00752, section 3.4).
// Before a sequence there are zeros, or the last rows of an earlier piece.
template <class T>
struct Convolution {
  std::int64_t positions, taps;
  TapRows rows;
  const T *x, *weight, *before;
  bool follows;

  REHEARSAL_DEVICE float input(std::int64_t sequence, std::int64_t position, std::int64_t column) const {
    const std::int64_t m = rows.columns;
    if (position >= 0) return widened(x[(sequence * positions + position) * m + column]);
    return follows ? widened(before[((sequence + 1) * (taps - 1) + position) * m + column]) : 0.f;
  }
  REHEARSAL_DEVICE float tap(std::int64_t column, std::int64_t j) const {
    return widened(weight[rows.of(column) * (taps + 1) + j]);
  }
  REHEARSAL_DEVICE float sum(std::int64_t sequence, std::int64_t position, std::int64_t column) const {
    float u = tap(column, taps);
    for (std::int64_t j = 0; j < taps; ++j) u += tap(column, j) * input(sequence, position - taps + 1 + j, column);
    return u;
  }
  // du = dy silu'(u)
  REHEARSAL_DEVICE float slope(std::int64_t sequence, std::int64_t position, std::int64_t column, const T* dy) const {
    const float u = sum(sequence, position, column), s = sigmoid(u);
    return widened(dy[(sequence * positions + position) * rows.columns + column]) * (s + u * s * (1 - s));
  }
  // Of the input at a position of this piece, or before it: dx_t = sum_j taps_{k-1-j} du_{t+j}.
  REHEARSAL_DEVICE float gradient(std::int64_t sequence, std::int64_t position, std::int64_t column,
                                  const T* dy) const {
    float dx = 0;
    for (std::int64_t j = 0; j < taps; ++j)
      if (position + j >= 0 && position + j < positions)
        dx += tap(column, taps - 1 - j) * slope(sequence, position + j, column, dy);
    return dx;
  }
};

template <class T>
struct Convolve {
  static constexpr int kAtOnce = 1;
  Convolution<T> of;
  T* y;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t row = i / of.rows.columns;
    const float u = of.sum(row / of.positions, row % of.positions, i % of.rows.columns);
    y[i] = stored<T>(u * sigmoid(u));
  }
};

// The last rows of a sequence have the gradient of the next piece besides.
template <class T>
struct ConvolveGradient {
  static constexpr int kAtOnce = 1;
  Convolution<T> of;
  const T *dy, *after;
  T* dx;
  bool goes_on;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t m = of.rows.columns, row = i / m, column = i % m;
    const std::int64_t sequence = row / of.positions, position = row % of.positions, last = of.taps - 1;
    float sum = of.gradient(sequence, position, column, dy);
    const std::int64_t place = position - of.positions + last;
    if (goes_on && place >= 0) sum += widened(after[(sequence * last + place) * m + column]);
    dx[i] = stored<T>(sum);
  }
};

template <class T>
struct ConvolveGradientBefore {
  static constexpr int kAtOnce = 1;
  Convolution<T> of;
  const T* dy;
  T* dbefore;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t m = of.rows.columns, row = i / m, last = of.taps - 1;
    dbefore[i] = stored<T>(of.gradient(row / last, row % last - last, i % m, dy));
  }
};

// Columns of dtaps (columns.hpp), one for each tap and bias of each column.
template <class T>
struct TapColumns {
  static constexpr int kSums = 1;
  Convolution<T> of;
  const T* dy;
  float* dtaps;
  std::int64_t columns;
  REHEARSAL_DEVICE void take(std::int64_t row, std::int64_t entry, double (&sums)[kSums]) const {
    const std::int64_t column = entry / (of.taps + 1), j = entry % (of.taps + 1);
    const std::int64_t sequence = row / of.positions, position = row % of.positions;
    const float x = j < of.taps ? of.input(sequence, position - of.taps + 1 + j, column) : 1.f;
    sums[0] += double(of.slope(sequence, position, column, dy)) * double(x);
  }
  REHEARSAL_DEVICE void give(std::int64_t entry, const double (&sums)[kSums]) const {
    float& to = dtaps[of.rows.of(entry / (of.taps + 1)) * (of.taps + 1) + entry % (of.taps + 1)];
    to = float(double(to) + sums[0]);
  }
};

// The last `length` rows of every sequence.
struct LastRows {
  std::int64_t positions = 0, columns = 0, length = 0;
  std::int64_t run() const { return columns; }
  REHEARSAL_BOTH std::int64_t at(std::int64_t i) const {
    const std::int64_t sequence = i / (length * columns);
    return ((sequence + 1) * positions - length) * columns + i - sequence * length * columns;
  }
};

// With v = x silu(z) and r = 1 / sqrt(mean of v² + epsilon) over a run of columns: y = gain v r (Dao and Gu, arXiv
// 2405.21060, section 7.1; mamba_ssm, RMSNormGated with groups). Each block serves one run of one row at a time.
template <class T>
struct GatedRows {
  std::int64_t rows, columns, groups;
  const T *x, *z;
  REHEARSAL_DEVICE std::int64_t width() const { return columns / groups; }
  REHEARSAL_DEVICE float gate(std::int64_t at) const { return widened(z[at]) * sigmoid(widened(z[at])); }
  REHEARSAL_DEVICE float value(std::int64_t at) const { return widened(x[at]) * gate(at); }
};

template <class T>
struct GatedNorm {
  static constexpr int kThreads = 64;
  using Shared = Nothing;
  GatedRows<T> of;
  const T* gain;
  T* y;
  float* stats;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, double> part(team);
    const std::int64_t width = of.width();
    for (std::int64_t i = team.block(); i < of.rows * of.groups; i += team.blocks()) {
      team.own([&](int thread) {
        double squares = 0;
        for (std::int64_t j = thread; j < width; j += kThreads) {
          const double v = double(of.value(i * width + j));
          squares += v * v;
        }
        part(thread) = squares;
      });
      const float r = float(1 / std::sqrt(team.sum(part) / double(width) + kNormEpsilon));
      const T* gains = gain + i % of.groups * width;
      team.own([&](int thread) {
        if (thread == 0) stats[i] = r;
        for (std::int64_t j = thread; j < width; j += kThreads)
          y[i * width + j] = stored<T>(widened(gains[j]) * (of.value(i * width + j) * r));
      });
    }
  }
};

// With h = gain dy:  dv = r (h - v r avg(h v r)), dx = dv silu(z), dz = dv x silu'(z).
template <class T>
struct GatedNormGradient {
  static constexpr int kThreads = 64;
  using Shared = Nothing;
  GatedRows<T> of;
  const float* stats;
  const T *gain, *dy;
  T *dx, *dz;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, double> products(team);
    const std::int64_t width = of.width();
    for (std::int64_t i = team.block(); i < of.rows * of.groups; i += team.blocks()) {
      const T* gains = gain + i % of.groups * width;
      const float r = stats[i];
      team.own([&](int thread) {
        double product = 0;
        for (std::int64_t j = thread; j < width; j += kThreads) {
          const std::int64_t at = i * width + j;
          product += double(widened(gains[j])) * double(widened(dy[at])) * double(of.value(at) * r);
        }
        products(thread) = product;
      });
      const float slope = float(team.sum(products) / double(width));
      team.own([&](int thread) {
        for (std::int64_t j = thread; j < width; j += kThreads) {
          const std::int64_t at = i * width + j;
          const float dv = r * (widened(gains[j]) * widened(dy[at]) - of.value(at) * r * slope);
          const float by = widened(of.z[at]), s = sigmoid(by);
          dx[at] = stored<T>(dv * of.gate(at));
          dz[at] = stored<T>(dv * widened(of.x[at]) * (s + by * s * (1 - s)));
        }
      });
    }
  }
};

template <class T>
struct GatedColumns {
  static constexpr int kSums = 1;
  GatedRows<T> of;
  const float* stats;
  const T* dy;
  float* dgain;
  std::int64_t columns;
  REHEARSAL_DEVICE void take(std::int64_t row, std::int64_t column, double (&sums)[kSums]) const {
    const std::int64_t at = row * columns + column;
    sums[0] += double(widened(dy[at])) * double(of.value(at) * stats[row * of.groups + column / of.width()]);
  }
  REHEARSAL_DEVICE void give(std::int64_t column, const double (&sums)[kSums]) const {
    dgain[column] = float(double(dgain[column]) + sums[0]);
  }
};

}  // namespace rehearsal::kernels
