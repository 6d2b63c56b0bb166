// Elementwise kernels, including those that need only their element's row or column. T is the storage type of
// activations and parameters; arithmetic in fp32. Names and shapes: table of KernelKind (base/kernels.hpp).
//
// Each is a body with at<N>(i): elements i .. i + N - 1, all in one row. A kernel over rows may be `wide` only if the
// row length is a multiple of N.
#pragma once
#include <cmath>
#include <cstdint>

#include "base/error.hpp"
#include "base/kernels.hpp"
#include "kernels/cut.hpp"
#include "kernels/team.hpp"

namespace rehearsal::kernels {

template <class Body>
struct Elementwise {
  static constexpr int kThreads = 256;
  using Shared = Nothing;
  Body body;
  std::int64_t elements = 0;
  bool wide = false;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    team.each([&](int thread) {
      stride<Body::kAtOnce>(team.block() * kThreads + thread, team.blocks() * kThreads, elements, wide,
                            [&](auto width, std::int64_t i) { body.template at<width()>(i); });
    });
  }
};

template <class T>
struct LoadRows {
  static constexpr int kAtOnce = kWide<T>;
  const float* rows;
  T* x;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    store<N>(x + i, load<N>(rows + i));
  }
};

template <class T>
struct Copy {
  static constexpr int kAtOnce = kWide<T>;
  const T* from;
  T* to;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    store<N>(to + i, load<N>(from + i));
  }
};

struct Clear {
  static constexpr int kAtOnce = kWide<float>;
  float* x;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    store<N>(x + i, Floats<N>{});
  }
};

// to += from
template <class T>
struct Add {
  static constexpr int kAtOnce = kWide<T>;
  const T* from;
  T* to;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const Floats<N> a = load<N>(from + i);
    Floats<N> b = load<N>(to + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) b[e] += a[e];
    store<N>(to + i, b);
  }
};

// The tanh form of GELU (Hendrycks and Gimpel, arXiv 1606.08415, section 2) is u s with a logistic function s, because
// (1 + tanh z) / 2 = 1 / (1 + exp(-2z)):  z = sqrt(2/pi) (u + 0.044715 u^3).
inline constexpr float kTwiceRoot = 1.5957691216057308f, kCubic = 0.044715f;  // 2 sqrt(2/pi)
REHEARSAL_DEVICE float sigmoid(float x) { return 1 / (1 + expf(-x)); }
REHEARSAL_DEVICE float logistic(float u) { return sigmoid(kTwiceRoot * (u + kCubic * u * u * u)); }

template <class T>
struct Gelu {
  static constexpr int kAtOnce = kWide<T>;
  const T* u;
  T* g;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    Floats<N> x = load<N>(u + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) x[e] *= logistic(x[e]);
    store<N>(g + i, x);
  }
};

// (u s)' = s + u s', s' = s (1 - s) 2 z', z' = sqrt(2/pi) (1 + 3 0.044715 u^2)
template <class T>
struct GeluGradient {
  static constexpr int kAtOnce = kWide<T>;
  const T* u;
  T* dg;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const Floats<N> x = load<N>(u + i);
    Floats<N> d = load<N>(dg + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) {
      const float s = logistic(x[e]);
      d[e] *= s + x[e] * s * (1 - s) * kTwiceRoot * (1 + 3 * kCubic * x[e] * x[e]);
    }
    store<N>(dg + i, d);
  }
};

// g = silu(gate) up, silu(z) = z s(z) with the logistic function s (Shazeer, arXiv 2002.05202, section 2). A row of u
// holds `columns` gates, then as many entries of up. Element i is one of g.
template <class T>
struct SwiGlu {
  static constexpr int kAtOnce = kWide<T>;
  const T* u;
  T* g;
  std::int64_t columns;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const T* from = u + i + quotient(i, columns) * columns;
    const Floats<N> gate = load<N>(from), up = load<N>(from + columns);
    Floats<N> y;
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) y[e] = gate[e] * sigmoid(gate[e]) * up[e];
    store<N>(g + i, y);
  }
};

// silu' = s + z s (1 - s)
template <class T>
struct SwiGluGradient {
  static constexpr int kAtOnce = kWide<T>;
  const T *u, *dg;
  T* du;
  std::int64_t columns;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t place = i + quotient(i, columns) * columns;
    const Floats<N> gate = load<N>(u + place), up = load<N>(u + place + columns), d = load<N>(dg + i);
    Floats<N> dgate, dup;
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) {
      const float s = sigmoid(gate[e]);
      dgate[e] = d[e] * up[e] * (s + gate[e] * s * (1 - s));
      dup[e] = d[e] * (gate[e] * s);
    }
    store<N>(du + place, dgate);
    store<N>(du + place + columns, dup);
  }
};

// y = x s(u) with the logistic function s (output gates: Qiu et al., arXiv 2505.06708, section 2.2).
template <class T>
struct Gate {
  static constexpr int kAtOnce = kWide<T>;
  const T *x, *u;
  T* y;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    Floats<N> v = load<N>(x + i);
    const Floats<N> by = load<N>(u + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) v[e] *= sigmoid(by[e]);
    store<N>(y + i, v);
  }
};

// dx = dy s, du = dy x s (1 - s)
template <class T>
struct GateGradient {
  static constexpr int kAtOnce = kWide<T>;
  const T *x, *u, *dy;
  T *dx, *du;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const Floats<N> v = load<N>(x + i), by = load<N>(u + i), d = load<N>(dy + i);
    Floats<N> a, b;
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) {
      const float s = sigmoid(by[e]);
      a[e] = d[e] * s, b[e] = d[e] * v[e] * (s * (1 - s));
    }
    store<N>(dx + i, a);
    store<N>(du + i, b);
  }
};

// Columns without a bias: those of the keys, the middle third, or none. A third of the columns is a multiple of a power
// of 2 if the columns are.
struct Gap {
  std::int64_t from, length;
};
inline Gap without_bias(std::int64_t columns, std::int64_t which) {
  if (static_cast<Bias>(which) == Bias::whole) return {columns, 0};
  INVARIANT(columns % 3 == 0, "query, key and value have the same width");
  return {columns / 3, columns / 3};
}

// With Bias::query_value the middle third of the columns has no bias; the entries of the bias are contiguous.
template <class T>
struct AddBias {
  static constexpr int kAtOnce = kWide<T>;
  const T* bias;
  T* y;
  std::int64_t columns;
  std::int64_t skip_from, skip;  // columns without a bias
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    std::int64_t column = remainder(i, columns);
    if (column >= skip_from && column < skip_from + skip) return;
    if (column >= skip_from) column -= skip;
    const Floats<N> b = load<N>(bias + column);
    Floats<N> x = load<N>(y + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) x[e] += b[e];
    store<N>(y + i, x);
  }
};

template <class T>
struct AddResidual {
  static constexpr int kAtOnce = kWide<T>;
  const T *x, *bias;
  T* r;
  std::int64_t columns;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const Floats<N> a = load<N>(x + i), b = load<N>(bias + remainder(i, columns));
    Floats<N> sum = load<N>(r + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) sum[e] += a[e] + b[e];
    store<N>(r + i, sum);
  }
};

// y += the rows of a position table. Each sequence has `rows` rows. documents: as in Numbered (cut.hpp).
template <class T>
struct AddPositions {
  static constexpr int kAtOnce = kWide<T>;
  const T* table;
  T* y;
  std::int64_t rows, columns;
  Cut cut;
  std::int64_t first;  // index of the first row in the batch
  const std::int32_t* documents = nullptr;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t row = quotient(i, columns);
    const std::int64_t position = documents ? Numbered{rows, cut, first, documents}.position(row)
                                            : cut.position(remainder(first + row, rows), rows);
    const Floats<N> a = load<N>(table + position * columns + (i - row * columns));
    Floats<N> b = load<N>(y + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) b[e] += a[e];
    store<N>(y + i, b);
  }
};

}  // namespace rehearsal::kernels
