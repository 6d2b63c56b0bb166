// Rotary position embedding. A body as in elementwise.hpp.
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/cut.hpp"
#include "kernels/team.hpp"

namespace rehearsal::kernels {

inline constexpr double kLog2RotaryBase = 13.287712379549449;  // log2 of 10000

// Rotary position embedding (Su et al., arXiv 2104.09864, section 3.2): columns i and i + half of each of the first
// `heads` heads of a row are rotated by the angle position 10000^(-i/half), or back. Element i is a pair, counted over
// rows, heads and half a head. The angle is in double: in fp32 it would be 0.004 off at position 10^5.
template <class T>
struct Rotary {
  static constexpr int kAtOnce = kWide<T>;
  T* rows;
  std::int64_t positions, heads, half, columns;  // positions: rows per sequence
  Cut cut;
  bool back;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t head = quotient(i, half), row = quotient(head, heads), pair = i - head * half;
    T* first = rows + row * columns + (head - row * heads) * 2 * half + pair;
    const double position = double(cut.position(remainder(row, positions), positions));
    Floats<N> x = load<N>(first), y = load<N>(first + half);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) {
      const double turns =
          position * exp2(-kLog2RotaryBase * double(pair + e) / double(half)) * (std::numbers::inv_pi / 2);
      const float angle = float(2 * std::numbers::pi * (turns - rint(turns)));
      const float cosine = cosf(angle), sine = back ? -sinf(angle) : sinf(angle);
      const float before = x[e];
      x[e] = before * cosine - y[e] * sine;
      y[e] = y[e] * cosine + before * sine;
    }
    store<N>(first, x);
    store<N>(first + half, y);
  }
};

}  // namespace rehearsal::kernels
