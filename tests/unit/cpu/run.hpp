// Runs one kernel on vectors and compares with numbers in double.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <random>
#include <vector>

#include "cpu/kernels.hpp"

namespace rehearsal::cpu {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline Floats random(std::size_t n, unsigned seed, double deviation = 1) {
  std::mt19937 bits(seed);
  std::normal_distribution<double> draw(0, deviation);
  Floats values(n);
  for (float& v : values) v = float(draw(bits));
  return values;
}
inline Doubles wide(const Floats& values) { return {values.begin(), values.end()}; }

inline void run(KernelKind kind, KernelDims dims, std::initializer_list<Floats*> operands,
                const KernelContext& around = {}) {
  std::vector<float*> pointers;
  for (Floats* operand : operands) pointers.push_back(operand->data());
  perform({kind, dims, {}}, pointers, around);
}

// The largest difference, relative to the largest entry that was expected.
inline double distance(const Floats& found, const Doubles& expected) {
  REQUIRE(found.size() == expected.size());
  double difference = 0, scale = 1e-30;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!(std::abs(double(found[i]) - expected[i]) <= difference))
      difference = std::abs(double(found[i]) - expected[i]);
    scale = std::max(scale, std::abs(expected[i]));
  }
  return difference / scale;
}

// Central differences of f at x: their error is about h^2 + 1e-16 / h, 1e-10 for f of order 1.
inline Doubles slopes(const std::function<double(const Doubles&)>& f, Doubles x) {
  constexpr double h = 1e-5;
  Doubles result;
  for (double& entry : x) {
    const double at = entry;
    entry = at + h;
    const double above = f(x);
    entry = at - h;
    result.push_back((above - f(x)) / (2 * h));
    entry = at;
  }
  return result;
}

inline double inner(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace rehearsal::cpu
