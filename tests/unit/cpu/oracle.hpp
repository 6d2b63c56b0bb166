// The forward kernels again, directly from their definitions, in double and without optimisation.
#pragma once
#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "base/kernels.hpp"

namespace rehearsal::cpu::oracle {

using Doubles = std::vector<double>;

inline Doubles product(std::int64_t m, std::int64_t n, std::int64_t k, const Doubles& a, bool a_turned,
                       const Doubles& b, bool b_turned) {
  Doubles c(m * n);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t p = 0; p < k; ++p)
        c[i * n + j] += a[a_turned ? p * m + i : i * k + p] * b[b_turned ? j * k + p : p * n + j];
  return c;
}

inline Doubles layer_norm(std::int64_t rows, std::int64_t n, const Doubles& x, const Doubles& gain,
                          const Doubles& bias) {
  Doubles y(x.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    double mean = 0, variance = 0;
    for (std::int64_t j = 0; j < n; ++j) mean += x[i * n + j] / n;
    for (std::int64_t j = 0; j < n; ++j) variance += (x[i * n + j] - mean) * (x[i * n + j] - mean) / n;
    for (std::int64_t j = 0; j < n; ++j)
      y[i * n + j] = (x[i * n + j] - mean) / std::sqrt(variance + 1e-5) * gain[j] + bias[j];
  }
  return y;
}

inline Doubles rms_norm(std::int64_t rows, std::int64_t n, const Doubles& x, const Doubles& gain) {
  Doubles y(x.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    double squares = 0;
    for (std::int64_t j = 0; j < n; ++j) squares += x[i * n + j] * x[i * n + j] / n;
    for (std::int64_t j = 0; j < n; ++j) y[i * n + j] = x[i * n + j] / std::sqrt(squares + 1e-5) * gain[j];
  }
  return y;
}

// Each pair of columns as a complex number, times exp(i angle). `position`: of each row.
inline Doubles rotary(const std::vector<std::int64_t>& position, std::int64_t heads, std::int64_t d,
                      std::int64_t columns, Doubles x) {
  for (std::size_t row = 0; row < position.size(); ++row)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < d / 2; ++i) {
        double &re = x[row * columns + h * d + i], &im = x[row * columns + h * d + d / 2 + i];
        const auto turned = std::complex(re, im) * std::polar(1., position[row] / std::pow(10000., 2. * i / d));
        re = turned.real(), im = turned.imag();
      }
  return x;
}

inline Doubles swiglu(std::int64_t rows, std::int64_t f, const Doubles& u) {
  Doubles g;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < f; ++j) {
      const double gate = u[i * 2 * f + j];
      g.push_back(gate / (1 + std::exp(-gate)) * u[i * 2 * f + f + j]);
    }
  return g;
}

inline Doubles gelu(const Doubles& u) {
  Doubles g;
  for (double x : u) g.push_back(x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
  return g;
}

// Whether query i sees key j of a whole sequence.
inline bool sees(const Sight& sight, std::int64_t i, std::int64_t j) {
  if (sight.mask != Mask::none && j > i) return false;
  if (sight.keys == 0) return true;
  return sight.chunked ? i / sight.keys == j / sight.keys : i - j < sight.keys;
}

// Softmax of the scores that are seen. lse, when asked for, is [batch, heads, positions].
inline Doubles attention(std::int64_t batch, std::int64_t heads, std::int64_t kv, std::int64_t s, std::int64_t d,
                         const Sight& sight, const Doubles& qkv, Doubles* lse = nullptr,
                         const Doubles* sinks = nullptr) {
  const std::int64_t width = heads * d, kv_width = kv * d;
  Doubles out(batch * s * width);
  if (lse) lse->assign(batch * heads * s, 0);
  const auto at = [&](std::int64_t b, std::int64_t i, std::int64_t block, std::int64_t h, std::int64_t c) {
    const std::int64_t begin = block == 0 ? h * d : width + (block - 1) * kv_width + h / (heads / kv) * d;
    return qkv[(b * s + i) * (width + 2 * kv_width) + begin + c];
  };
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < s; ++i) {
        Doubles weight(s);
        double sum = sinks ? std::exp((*sinks)[h]) : 0;
        for (std::int64_t j = 0; j < s; ++j) {
          if (!sees(sight, i, j)) continue;
          double score = 0;
          for (std::int64_t c = 0; c < d; ++c) score += at(b, i, 0, h, c) * at(b, j, 1, h, c);
          sum += weight[j] = std::exp(score / std::sqrt(double(d)));
        }
        for (std::int64_t j = 0; j < s; ++j)
          for (std::int64_t c = 0; c < d; ++c)
            out[(b * s + i) * width + h * d + c] += weight[j] / sum * at(b, j, 2, h, c);
        if (lse) (*lse)[(b * heads + h) * s + i] = std::log(sum);
      }
  return out;
}

// Mean over `total` rows of log sum exp - logit of the target.
inline double cross_entropy(std::int64_t rows, std::int64_t vocabulary, const Doubles& logits,
                            const std::vector<std::int32_t>& targets, std::int64_t total, Doubles* lse = nullptr) {
  double loss = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < vocabulary; ++j) sum += std::exp(logits[i * vocabulary + j]);
    if (lse) lse->push_back(std::log(sum));
    loss += (std::log(sum) - logits[i * vocabulary + targets[i]]) / total;
  }
  return loss;
}

}  // namespace rehearsal::cpu::oracle
