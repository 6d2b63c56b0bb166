#include <vector>

#include "base/error.hpp"
#include "cpu/exponential.hpp"
#include "cpu/functions.hpp"
#include "kernels/elementwise.hpp"

namespace rehearsal::cpu {
namespace {

// Columns with a bias: up to two runs, with contiguous entries of the bias.
struct Run {
  std::int64_t column, entry, length;
};
std::vector<Run> runs(std::int64_t columns, Bias which) {
  if (which == Bias::whole) return {{0, 0, columns}};
  INVARIANT(columns % 3 == 0, "query, key and value have the same width");
  const std::int64_t third = columns / 3;
  return {{0, 0, third}, {2 * third, third, third}};
}

using kernels::kTwiceRoot, kernels::kCubic;  // equations of activations: there
float sigmoid(float x) { return 1 / (1 + exponential(-x)); }
float logistic(float u) { return sigmoid(kTwiceRoot * (u + kCubic * u * u * u)); }

}  // namespace

void add_bias(Shape shape, Bias which, const float* bias, float* y) {
  for (const Run& run : runs(shape.columns, which))
    for (std::int64_t i = 0; i < shape.rows; ++i) add(run.length, bias + run.entry, y + i * shape.columns + run.column);
}

void bias_gradient(Shape shape, Bias which, const float* dy, float* dbias) {
  std::vector<double> sums(static_cast<std::size_t>(shape.columns));
  for (std::int64_t i = 0; i < shape.rows; ++i)
    for (std::int64_t j = 0; j < shape.columns; ++j) sums[j] += double(dy[i * shape.columns + j]);
  for (const Run& run : runs(shape.columns, which))
    for (std::int64_t j = 0; j < run.length; ++j)
      dbias[run.entry + j] = float(double(dbias[run.entry + j]) + sums[run.column + j]);
}

void gelu(std::int64_t elements, const float* u, float* g) {
  for (std::int64_t i = 0; i < elements; ++i) g[i] = u[i] * logistic(u[i]);
}

void gelu_gradient(std::int64_t elements, const float* u, float* dg) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const float s = logistic(u[i]);
    dg[i] *= s + u[i] * s * (1 - s) * kTwiceRoot * (1 + 3 * kCubic * u[i] * u[i]);
  }
}

void swiglu(Shape shape, const float* u, float* g) {
  const std::int64_t f = shape.columns;
  for (std::int64_t row = 0; row < shape.rows; ++row, u += 2 * f, g += f)
    for (std::int64_t j = 0; j < f; ++j) g[j] = u[j] * sigmoid(u[j]) * u[f + j];
}

void swiglu_gradient(Shape shape, const float* u, const float* dg, float* du) {
  const std::int64_t f = shape.columns;
  for (std::int64_t row = 0; row < shape.rows; ++row, u += 2 * f, dg += f, du += 2 * f)
    for (std::int64_t j = 0; j < f; ++j) {
      const float gate = u[j], s = sigmoid(gate);
      du[j] = dg[j] * u[f + j] * (s + gate * s * (1 - s));
      du[f + j] = dg[j] * (gate * s);
    }
}

void add_residual(Shape shape, const float* x, const float* bias, float* r) {
  for (std::int64_t i = 0; i < shape.rows; ++i)
    for (std::int64_t j = 0; j < shape.columns; ++j) r[i * shape.columns + j] += x[i * shape.columns + j] + bias[j];
}

void add(std::int64_t elements, const float* a, float* b) {
  for (std::int64_t i = 0; i < elements; ++i) b[i] += a[i];
}

}  // namespace rehearsal::cpu
