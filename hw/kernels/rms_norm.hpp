// RMS normalisation (Zhang and Sennrich, arXiv 1910.07467): xhat = x r, y = gain xhat, r = 1 / sqrt(mean of squares +
// epsilon). Stored as in norm.hpp, but stats[rows] = r alone. Sums run in double.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/norm.hpp"

namespace rehearsal::kernels {

// A block serves the rows block, block + blocks, ...
template <class T, int kBlock>
struct RmsNorm {
  static constexpr int kThreads = kBlock;
  using Shared = Nothing;
  const T *x, *gain;
  T* y;
  float* stats;
  std::int64_t rows, columns;
  bool wide;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, double> part(team);
    for (std::int64_t row = team.block(); row < rows; row += team.blocks()) {
      const T* from = x + row * columns;
      team.own([&](int thread) {
        double squares = 0;
        stride<kWide<T>>(thread, kThreads, columns, wide, [&](auto width, std::int64_t j) {
          const auto values = load<width()>(from + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) squares += double(values[e]) * double(values[e]);
        });
        part(thread) = squares;
      });
      const float r = float(1 / std::sqrt(team.sum(part) / double(columns) + kNormEpsilon));
      team.own([&](int thread) {
        if (thread == 0) stats[row] = r;
        stride<kWide<T>>(thread, kThreads, columns, wide, [&](auto width, std::int64_t j) {
          const auto g = load<width()>(gain + j);
          auto values = load<width()>(from + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) values[e] = g[e] * (values[e] * r);
          store<width()>(y + row * columns + j, values);
        });
      });
    }
  }
};

// With h = gain dy:  dx = r (h - xhat avg(h xhat)). Overwrites dy, so the gradient of the gain (columns.hpp) runs
// first.
template <class T, int kBlock>
struct RmsNormGradient {
  static constexpr int kThreads = kBlock;
  using Shared = Nothing;
  const T* x;
  const float* stats;
  const T* gain;
  T* dy;
  std::int64_t rows, columns;
  bool wide;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, double> products(team);
    for (std::int64_t row = team.block(); row < rows; row += team.blocks()) {
      const float r = stats[row];
      const T* from = x + row * columns;
      T* to = dy + row * columns;
      team.own([&](int thread) {
        double product = 0;
        stride<kWide<T>>(thread, kThreads, columns, wide, [&](auto width, std::int64_t j) {
          const auto values = load<width()>(from + j), g = load<width()>(gain + j), d = load<width()>(to + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) product += double(g[e]) * double(d[e]) * double(values[e] * r);
        });
        products(thread) = product;
      });
      const float slope = float(team.sum(products) / double(columns));
      team.own([&](int thread) {
        stride<kWide<T>>(thread, kThreads, columns, wide, [&](auto width, std::int64_t j) {
          const auto values = load<width()>(from + j), g = load<width()>(gain + j);
          auto d = load<width()>(to + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) d[e] = r * (g[e] * d[e] - values[e] * r * slope);
          store<width()>(to + j, d);
        });
      });
    }
  }
};

}  // namespace rehearsal::kernels
