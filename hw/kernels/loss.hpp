// Cross-entropy over a vocabulary that is sharded over the tensor ranks (Megatron-LM, arXiv 1909.08053, section 3):
// each rank reduces each row of its slice to three numbers, and only those are exchanged. Squared error of real rows.
// logits[T, columns] are the columns first .. first + columns of the vocabulary; those from `vocabulary` on are padding
// and ignored.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/kernels.hpp"
#include "kernels/team.hpp"

namespace rehearsal::kernels {

// A rank's summary of a row: part[T, 3].
enum Entry : std::int64_t { kMost, kSum, kTargetLogit, kEntries };

// Columns of a rank's slice that are not padding. dims: T r vocabulary.
inline std::int64_t real_columns(const Kernel& kernel, std::int64_t tensor) {
  return std::clamp<std::int64_t>(kernel.dims[2] - tensor * kernel.dims[1], 0, kernel.dims[1]);
}

// A slice of only padding has kMost = -inf and kSum = 0, which have no effect below. A block serves the rows block,
// block + blocks, ...
template <class T>
struct CrossEntropyLocal {
  static constexpr int kThreads = 256;
  using Shared = Nothing;
  const T* logits;
  const std::int32_t* targets;
  float* part;
  std::int64_t rows, columns, real, first;  // real: columns that are not padding
  bool wide;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, float> most(team);
    Local<Team, double> exponentials(team);
    for (std::int64_t row = team.block(); row < rows; row += team.blocks()) {
      const T* from = logits + row * columns;
      team.own([&](int thread) {
        float x = -std::numeric_limits<float>::infinity();
        stride<kWide<T>>(thread, kThreads, real, wide, [&](auto width, std::int64_t j) {
          const auto values = load<width()>(from + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) x = Largest{}(x, values[e]);
        });
        most(thread) = x;
      });
      const float top = team.largest(most);
      team.own([&](int thread) {
        double s = 0;
        stride<kWide<T>>(thread, kThreads, real, wide, [&](auto width, std::int64_t j) {
          const auto values = load<width()>(from + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) s += double(expf(values[e] - top));
        });
        exponentials(thread) = s;
      });
      const double total = team.sum(exponentials);
      team.own([&](int thread) {
        if (thread != 0) return;
        const std::int64_t own = targets[row] - first;
        float* to = part + row * kEntries;
        to[kMost] = top;
        to[kSum] = float(total);
        to[kTargetLogit] = own >= 0 && own < real ? widened(from[own]) : 0;
      });
    }
  }
};

// Summands of the loss: lse - logit of the target. Also writes lse[T]. parts[ranks, T, 3].
struct CrossEntropyRows {
  const float* parts;
  float* lse;
  std::int64_t rows, ranks;

  template <class Take>
  REHEARSAL_DEVICE void each(std::int64_t begin, std::int64_t step, const Take& take) const {
    for (std::int64_t row = begin; row < rows; row += step) {
      double most = -std::numeric_limits<double>::infinity(), total = 0, target = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank) most = Largest{}(most, entry(rank, row, kMost));
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        total += entry(rank, row, kSum) * std::exp(entry(rank, row, kMost) - most);
        target += entry(rank, row, kTargetLogit);
      }
      const double whole = most + std::log(total);
      lse[row] = float(whole);
      take(whole - target);
    }
  }
  REHEARSAL_DEVICE double entry(std::int64_t rank, std::int64_t row, Entry e) const {
    return double(parts[(rank * rows + row) * kEntries + e]);
  }
};

// logits = (softmax - one at the target) / total; 0 on padding.
template <class T>
struct CrossEntropyGradient {
  static constexpr int kAtOnce = kWide<T>;
  const float* lse;
  const std::int32_t* targets;
  T* logits;
  std::int64_t columns, real, first;
  float weight;  // 1 / total
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t row = quotient(i, columns), column = i - row * columns, own = targets[row] - first;
    Floats<N> x = load<N>(logits + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) {
      const float share = expf(x[e] - lse[row]) - (column + e == own ? 1.f : 0.f);
      x[e] = column + e < real ? share * weight : 0;
    }
    store<N>(logits + i, x);
  }
};

// Summands (y - target)^2.
template <class T>
struct SquaredErrors {
  const T* y;
  const float* target;
  std::int64_t elements;
  bool wide;
  template <class Take>
  REHEARSAL_DEVICE void each(std::int64_t begin, std::int64_t step, const Take& take) const {
    stride<kWide<T>>(begin, step, elements, wide, [&](auto width, std::int64_t i) {
      const auto a = load<width()>(y + i), b = load<width()>(target + i);
      REHEARSAL_UNROLL
      for (int e = 0; e < width(); ++e) {
        const double error = double(a[e]) - double(b[e]);
        take(error * error);
      }
    });
  }
};

// Gradient of squares / (2 total columns).
template <class T>
struct SquaredErrorGradient {
  static constexpr int kAtOnce = kWide<T>;
  const T* y;
  const float* target;
  T* dy;
  float weight;  // 1 / (total columns)
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const Floats<N> b = load<N>(target + i);
    Floats<N> a = load<N>(y + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) a[e] = (a[e] - b[e]) * weight;
    store<N>(dy + i, a);
  }
};

}  // namespace rehearsal::kernels
