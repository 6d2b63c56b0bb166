// Around attention: norms of the heads of queries and keys, sinks, output gates. Equations: kernels/heads.hpp and
// kernels/elementwise.hpp. Sums are in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/functions.hpp"

namespace rehearsal::cpu {

using kernels::kNormEpsilon;

void head_norm(const HeadRows& shape, const float* x, const float* gain, float* y, float* stats) {
  const std::int64_t d = shape.depth;
  for (std::int64_t row = 0; row < shape.rows; ++row, x += shape.columns(), y += shape.columns()) {
    for (std::int64_t head = 0; head < shape.normed(); ++head)
      rms_norm({1, d}, x + head * d, gain + (head < shape.heads ? 0 : d), y + head * d, stats++);
    std::copy_n(x + shape.normed() * d, shape.kv * d, y + shape.normed() * d);
  }
}

void head_norm_gradient(const HeadRows& shape, const float* x, const float* stats, const float* gain, float* dgain,
                        float* dy) {
  const std::int64_t d = shape.depth;
  std::vector<double> gains(static_cast<std::size_t>(2 * d));
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t head = 0; head < shape.normed(); ++head) {
      const std::int64_t at = row * shape.columns() + head * d, of = head < shape.heads ? 0 : d;
      const float r = stats[row * shape.normed() + head];
      double with_normal = 0;
      for (std::int64_t j = 0; j < d; ++j) {
        const double normal = double(x[at + j] * r), s = double(dy[at + j]);
        with_normal += double(gain[of + j]) * s * normal, gains[static_cast<std::size_t>(of + j)] += s * normal;
      }
      const float slope = float(with_normal / double(d));
      for (std::int64_t j = 0; j < d; ++j) dy[at + j] = r * (gain[of + j] * dy[at + j] - x[at + j] * r * slope);
    }
  for (std::int64_t j = 0; j < 2 * d; ++j) dgain[j] = float(double(dgain[j]) + gains[static_cast<std::size_t>(j)]);
}

void attention_sinks(const SinkRows& shape, const float* sinks, float* out, float* lse) {
  for (std::int64_t i = 0; i < shape.batch * shape.heads * shape.positions; ++i) {
    const kernels::WithSink with(lse[i], sinks[shape.head(i)]);
    lse[i] = with.lse;
    for (std::int64_t c = 0; c < shape.depth; ++c) out[shape.out(i) + c] *= with.share;
  }
}

void attention_sinks_gradient(const SinkRows& shape, const float* out, const float* lse, const float* dout,
                              const float* sinks, float* dsinks) {
  std::vector<double> sums(static_cast<std::size_t>(shape.heads));
  for (std::int64_t i = 0; i < shape.batch * shape.heads * shape.positions; ++i) {
    double product = 0;
    for (std::int64_t c = 0; c < shape.depth; ++c)
      product += double(out[shape.out(i) + c]) * double(dout[shape.out(i) + c]);
    sums[static_cast<std::size_t>(shape.head(i))] += double(std::exp(sinks[shape.head(i)] - lse[i])) * product;
  }
  for (std::int64_t h = 0; h < shape.heads; ++h)
    dsinks[h] = float(double(dsinks[h]) - sums[static_cast<std::size_t>(h)]);
}

void gate(std::int64_t elements, const float* x, const float* u, float* y) {
  for (std::int64_t i = 0; i < elements; ++i) y[i] = x[i] / (1 + std::exp(-u[i]));
}

void gate_gradient(std::int64_t elements, const float* x, const float* u, const float* dy, float* dx, float* du) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const float s = 1 / (1 + std::exp(-u[i]));
    dx[i] = dy[i] * s, du[i] = dy[i] * x[i] * (s * (1 - s));
  }
}

}  // namespace rehearsal::cpu
