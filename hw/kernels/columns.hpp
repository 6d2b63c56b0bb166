// Sums over the rows of a matrix: gradients of biases and gains. A block serves kStrip neighbouring columns with
// kThreads / kStrip threads per column, each of which takes every n-th row; their sums are added in thread order. In
// double, added to fp32 results: only the shape decides the order, and it hardly matters.
#pragma once
#include <cstdint>

#include "kernels/team.hpp"

namespace rehearsal::kernels {

// dbias += column sums of dy[rows, columns]; columns of [skip_from, skip_from + skip) have none.
template <class T>
struct BiasColumns {
  static constexpr int kSums = 1;
  const T* dy;
  float* dbias;
  std::int64_t columns, skip_from, skip;
  REHEARSAL_DEVICE void take(std::int64_t row, std::int64_t column, double (&sums)[kSums]) const {
    sums[0] += double(widened(dy[row * columns + column]));
  }
  REHEARSAL_DEVICE void give(std::int64_t column, const double (&sums)[kSums]) const {
    if (column >= skip_from && column < skip_from + skip) return;
    float& to = dbias[column < skip_from ? column : column - skip];
    to = float(double(to) + sums[0]);
  }
};

// dgain += sum of dy xhat, dbias += sum of dy.
template <class T>
struct NormColumns {
  static constexpr int kSums = 2;
  const T* x;
  const float* stats;
  const T* dy;
  float *dgain, *dbias;
  std::int64_t columns;
  REHEARSAL_DEVICE void take(std::int64_t row, std::int64_t column, double (&sums)[kSums]) const {
    const double d = double(widened(dy[row * columns + column]));
    const float normal = (widened(x[row * columns + column]) - stats[2 * row]) * stats[2 * row + 1];
    sums[0] += d * double(normal), sums[1] += d;
  }
  REHEARSAL_DEVICE void give(std::int64_t column, const double (&sums)[kSums]) const {
    dgain[column] = float(double(dgain[column]) + sums[0]);
    dbias[column] = float(double(dbias[column]) + sums[1]);
  }
};

// dgain += sum of dy xhat, without a mean.
template <class T>
struct RmsColumns {
  static constexpr int kSums = 1;
  const T* x;
  const float* stats;
  const T* dy;
  float* dgain;
  std::int64_t columns;
  REHEARSAL_DEVICE void take(std::int64_t row, std::int64_t column, double (&sums)[kSums]) const {
    const float normal = widened(x[row * columns + column]) * stats[row];
    sums[0] += double(widened(dy[row * columns + column])) * double(normal);
  }
  REHEARSAL_DEVICE void give(std::int64_t column, const double (&sums)[kSums]) const {
    dgain[column] = float(double(dgain[column]) + sums[0]);
  }
};

template <class Body, int kStrip>
struct ColumnSums {
  static constexpr int kThreads = 512, kLanes = kThreads / kStrip;
  struct Shared {
    double sums[Body::kSums][kThreads];
  };
  Body body;
  std::int64_t rows;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    const std::int64_t first = team.block() * kStrip;
    team.each([&](int thread) {
      const std::int64_t column = first + thread % kStrip;
      double sums[Body::kSums] = {};
      if (column < body.columns) {
#if defined(__CUDACC__)
#pragma unroll 4
#endif
        for (std::int64_t row = thread / kStrip; row < rows; row += kLanes) body.take(row, column, sums);
      }
      for (int s = 0; s < Body::kSums; ++s) team.shared.sums[s][thread] = sums[s];
    });
    team.each([&](int thread) {
      if (thread >= kStrip || first + thread >= body.columns) return;
      double sums[Body::kSums] = {};
      for (int lane = 0; lane < kLanes; ++lane)
        for (int s = 0; s < Body::kSums; ++s) sums[s] += team.shared.sums[s][lane * kStrip + thread];
      body.give(first + thread, sums);
    });
  }
};

}  // namespace rehearsal::kernels
