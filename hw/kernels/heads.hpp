// Around attention: RMS norms of the heads of queries and keys, and sinks. Layouts: table of KernelKind
// (base/kernels.hpp).
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/norm.hpp"

namespace rehearsal::kernels {

// A row of qkv: heads x depth columns of queries, kv x depth each of keys and values.
struct HeadRows {
  std::int64_t rows = 0, heads = 0, kv = 0, depth = 0;
  REHEARSAL_BOTH std::int64_t columns() const { return (heads + 2 * kv) * depth; }
  REHEARSAL_BOTH std::int64_t normed() const { return heads + kv; }
};

// A block serves heads (of queries and keys, counted over the rows) block, block + blocks, ..., as RmsNorm serves rows;
// the values of a row are copied with its first head. Sums run in double.
template <class T>
struct HeadNorm {
  static constexpr int kThreads = 64;
  using Shared = Nothing;
  HeadRows shape;
  const T *x, *gain;
  T* y;
  float* stats;
  bool wide;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, double> part(team);
    const std::int64_t d = shape.depth, values = shape.kv * d;
    for (std::int64_t i = team.block(); i < shape.rows * shape.normed(); i += team.blocks()) {
      const std::int64_t row = i / shape.normed(), head = i % shape.normed();
      const T *from = x + row * shape.columns() + head * d, *gains = gain + (head < shape.heads ? 0 : d);
      T* to = y + row * shape.columns() + head * d;
      team.own([&](int thread) {
        double squares = 0;
        stride<kWide<T>>(thread, kThreads, d, wide, [&](auto width, std::int64_t j) {
          const auto v = load<width()>(from + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) squares += double(v[e]) * double(v[e]);
        });
        part(thread) = squares;
      });
      const float r = float(1 / std::sqrt(team.sum(part) / double(d) + kNormEpsilon));
      team.own([&](int thread) {
        if (thread == 0) stats[i] = r;
        stride<kWide<T>>(thread, kThreads, d, wide, [&](auto width, std::int64_t j) {
          const auto g = load<width()>(gains + j);
          auto v = load<width()>(from + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) v[e] = g[e] * (v[e] * r);
          store<width()>(to + j, v);
        });
        if (head > 0) return;
        const std::int64_t behind = shape.normed() * d;
        stride<kWide<T>>(thread, kThreads, values, wide, [&](auto width, std::int64_t j) {
          store<width()>(to + behind + j, load<width()>(from + behind + j));
        });
      });
    }
  }
};

// With h = gain dy:  dx = r (h - xhat avg(h xhat)). Overwrites dy, so the gradients of the gains (HeadColumns) run
// first.
template <class T>
struct HeadNormGradient {
  static constexpr int kThreads = 64;
  using Shared = Nothing;
  HeadRows shape;
  const T* x;
  const float* stats;
  const T* gain;
  T* dy;
  bool wide;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, double> products(team);
    const std::int64_t d = shape.depth;
    for (std::int64_t i = team.block(); i < shape.rows * shape.normed(); i += team.blocks()) {
      const std::int64_t row = i / shape.normed(), head = i % shape.normed();
      const T *from = x + row * shape.columns() + head * d, *gains = gain + (head < shape.heads ? 0 : d);
      T* to = dy + row * shape.columns() + head * d;
      const float r = stats[i];
      team.own([&](int thread) {
        double product = 0;
        stride<kWide<T>>(thread, kThreads, d, wide, [&](auto width, std::int64_t j) {
          const auto v = load<width()>(from + j), g = load<width()>(gains + j), s = load<width()>(to + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) product += double(g[e]) * double(s[e]) * double(v[e] * r);
        });
        products(thread) = product;
      });
      const float slope = float(team.sum(products) / double(d));
      team.own([&](int thread) {
        stride<kWide<T>>(thread, kThreads, d, wide, [&](auto width, std::int64_t j) {
          const auto v = load<width()>(from + j), g = load<width()>(gains + j);
          auto s = load<width()>(to + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) s[e] = r * (g[e] * s[e] - v[e] * r * slope);
          store<width()>(to + j, s);
        });
      });
    }
  }
};

// Columns of dgain[2, depth] (columns.hpp): dgain += sum of dy xhat over the rows and the heads of queries, or of keys.
template <class T>
struct HeadColumns {
  static constexpr int kSums = 1;
  HeadRows shape;
  const T* x;
  const float* stats;
  const T* dy;
  float* dgain;
  std::int64_t columns;  // 2 depth
  REHEARSAL_DEVICE void take(std::int64_t row, std::int64_t column, double (&sums)[kSums]) const {
    const bool keys = column >= shape.depth;
    const std::int64_t first = keys ? shape.heads : 0, end = keys ? shape.normed() : shape.heads;
    const std::int64_t within = keys ? column - shape.depth : column;
    for (std::int64_t head = first; head < end; ++head) {
      const std::int64_t at = row * shape.columns() + head * shape.depth + within;
      const float normal = widened(x[at]) * stats[row * shape.normed() + head];
      sums[0] += double(widened(dy[at])) * double(normal);
    }
  }
  REHEARSAL_DEVICE void give(std::int64_t column, const double (&sums)[kSums]) const {
    dgain[column] = float(double(dgain[column]) + sums[0]);
  }
};

// Results of attention, and the sinks of their heads.
struct SinkRows {
  std::int64_t batch = 0, heads = 0, positions = 0, depth = 0;
  // Of result i, which is counted as lse is: [batch, heads, positions].
  REHEARSAL_BOTH std::int64_t head(std::int64_t i) const { return i / positions % heads; }
  REHEARSAL_BOTH std::int64_t out(std::int64_t i) const {
    const std::int64_t sequence = i / (heads * positions);
    return ((sequence * positions + i % positions) * heads + head(i)) * depth;
  }
};

// With a sink z beside the scores:  lse' = log(exp(lse) + exp(z)),  out' = out exp(lse - lse').
struct WithSink {
  float lse, share;
  REHEARSAL_DEVICE WithSink(float before, float sink) {
    const float top = before > sink ? before : sink, low = before > sink ? sink : before;
    lse = top + log1pf(expf(low - top));
    share = 1 / (1 + expf(sink - before));
  }
};

template <class T>
struct AttentionSinks {
  static constexpr int kThreads = 64;
  using Shared = Nothing;
  SinkRows shape;
  const T* sinks;
  T* out;
  float* lse;
  bool wide;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, float> share(team), level(team);
    for (std::int64_t i = team.block(); i < shape.batch * shape.heads * shape.positions; i += team.blocks()) {
      const float sink = widened(sinks[shape.head(i)]);
      team.each([&](int thread) {  // all threads read the value that one of them overwrites
        const WithSink with(lse[i], sink);
        share(thread) = with.share, level(thread) = with.lse;
      });
      team.own([&](int thread) {
        if (thread == 0) lse[i] = level(thread);
        stride<kWide<T>>(thread, kThreads, shape.depth, wide, [&](auto width, std::int64_t j) {
          auto v = load<width()>(out + shape.out(i) + j);
          REHEARSAL_UNROLL
          for (int e = 0; e < width(); ++e) v[e] *= share(thread);
          store<width()>(out + shape.out(i) + j, v);
        });
      });
    }
  }
};

// A sink's value is 0, so dz = - sum of exp(z - lse) dout out over the queries of its head. One block for each head.
template <class T>
struct AttentionSinksGradient {
  static constexpr int kThreads = 256;
  using Shared = Nothing;
  SinkRows shape;
  const T* out;
  const float* lse;
  const T *dout, *sinks;
  float* dsinks;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, double> part(team);
    const std::int64_t head = team.block();
    team.own([&](int thread) {
      double sum = 0;
      for (std::int64_t k = thread; k < shape.batch * shape.positions * shape.depth; k += kThreads) {
        const std::int64_t query = k / shape.depth, sequence = query / shape.positions;
        const std::int64_t i = (sequence * shape.heads + head) * shape.positions + query % shape.positions;
        const std::int64_t at = shape.out(i) + k % shape.depth;
        const float weight = expf(widened(sinks[head]) - lse[i]);
        sum += double(weight) * double(widened(out[at])) * double(widened(dout[at]));
      }
      part(thread) = sum;
    });
    const double sum = team.sum(part);
    team.own([&](int thread) {
      if (thread == 0) dsinks[head] = float(double(dsinks[head]) - sum);
    });
  }
};

}  // namespace rehearsal::kernels
