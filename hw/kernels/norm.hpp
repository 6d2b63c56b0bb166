// Layer normalisation (Ba et al., arXiv 1607.06450): xhat = (x - mean) r, y = gain xhat + bias, with the variance of
// the row itself and r = 1 / sqrt(variance + epsilon). x, y, dy[rows, columns] and gain, bias are stored as T;
// stats[rows, 2] = mean and r, dgain and dbias in fp32. Sums are in double, so they hardly depend on order.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/team.hpp"

namespace rehearsal::kernels {

inline constexpr double kNormEpsilon = 1e-5;

// A block serves the rows block, block + blocks, ...
template <class T, int kBlock>
struct LayerNorm {
  static constexpr int kThreads = kBlock;
  using Shared = Nothing;
  const T *x, *gain, *bias;
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
        double sum = 0;
        stride<kWide<T>>(thread, kThreads, columns, wide, [&](auto width, std::int64_t j) {
          const auto values = load<width()>(from + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) sum += double(values[e]);
        });
        part(thread) = sum;
      });
      const double mean = team.sum(part) / double(columns);
      team.own([&](int thread) {
        double squares = 0;
        stride<kWide<T>>(thread, kThreads, columns, wide, [&](auto width, std::int64_t j) {
          const auto values = load<width()>(from + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) squares += (double(values[e]) - mean) * (double(values[e]) - mean);
        });
        part(thread) = squares;
      });
      const float centre = float(mean), r = float(1 / std::sqrt(team.sum(part) / double(columns) + kNormEpsilon));
      team.own([&](int thread) {
        if (thread == 0) stats[2 * row] = centre, stats[2 * row + 1] = r;
        stride<kWide<T>>(thread, kThreads, columns, wide, [&](auto width, std::int64_t j) {
          const auto g = load<width()>(gain + j), b = load<width()>(bias + j);
          auto values = load<width()>(from + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) values[e] = g[e] * ((values[e] - centre) * r) + b[e];
          store<width()>(y + row * columns + j, values);
        });
      });
    }
  }
};

// With h = gain dy:  dx = r (h - avg(h) - xhat avg(h xhat)), because mean and r depend on every entry of the row.
// Overwrites dy, so the gradients of gain and bias (columns.hpp) run first.
template <class T, int kBlock>
struct LayerNormGradient {
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
    Local<Team, double> sums(team), products(team);
    for (std::int64_t row = team.block(); row < rows; row += team.blocks()) {
      const float mean = stats[2 * row], r = stats[2 * row + 1];
      const T* from = x + row * columns;
      T* to = dy + row * columns;
      team.own([&](int thread) {
        double sum = 0, product = 0;
        stride<kWide<T>>(thread, kThreads, columns, wide, [&](auto width, std::int64_t j) {
          const auto values = load<width()>(from + j), g = load<width()>(gain + j), d = load<width()>(to + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) {
            const double h = double(g[e]) * double(d[e]);
            sum += h, product += h * double((values[e] - mean) * r);
          }
        });
        sums(thread) = sum, products(thread) = product;
      });
      const float average = float(team.sum(sums) / double(columns));
      const float slope = float(team.sum(products) / double(columns));
      team.own([&](int thread) {
        stride<kWide<T>>(thread, kThreads, columns, wide, [&](auto width, std::int64_t j) {
          const auto values = load<width()>(from + j), g = load<width()>(gain + j);
          auto d = load<width()>(to + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) d[e] = r * (g[e] * d[e] - average - (values[e] - mean) * r * slope);
          store<width()>(to + j, d);
        });
      });
    }
  }
};

}  // namespace rehearsal::kernels
