// SGD, AdaLOMO, and AdamW with bias correction and decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101,
// algorithm 2), and the way back of optimizer post-validation (Zero Bubble, arXiv 2401.10241, section 4). With t' =
// steps + 1:
//   m' = b1 m + (1-b1) g;  v' = b2 v + (1-b2) g^2
//   theta' = theta (1 - lr wd) - lr mhat / (sqrt(vhat) + eps),  mhat = m' / (1 - b1^t'), vhat = v' / (1 - b2^t')
// Gradients and states are fp32 arrays of e elements. Parameters stored as bf16 have a master copy in fp32: the step
// is taken there and then rounded into them (Micikevicius et al., arXiv 1710.03740, section 3.1).
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/call.hpp"
#include "kernels/team.hpp"

namespace rehearsal::kernels {

// The rate of a step that is clipped by the norm of all gradients.
REHEARSAL_DEVICE float clipped(float rate, double squared_norm) {
  const double share = kLargestNorm / (std::sqrt(squared_norm) + kNormOffset);
  return float(double(rate) * (share < 1 ? share : 1));
}

// theta -= lr g, and clears g. `master` null: the stored parameters are the only copy, rounded at every step.
template <class T>
struct Sgd {
  static constexpr int kAtOnce = 4;
  float rate;
  float* gradient;
  T* parameters;
  float* master;
  const double* squared_norm = nullptr;  // of all gradients, for clipping by norm
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const Floats<N> g = load<N>(gradient + i);
    Floats<N> x = master ? load<N>(master + i) : load<N>(parameters + i);
    const float scaled = squared_norm ? clipped(rate, *squared_norm) : rate;
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) x[e] -= scaled * g[e];
    if (master) store<N>(master + i, x);
    store<N>(parameters + i, x);
    store<N>(gradient + i, Floats<N>{});
  }
};

enum class Step : std::uint8_t { take_and_clear, take, undo };

// undo inverts the step that was taken with the same gradient and the same number of previous steps.
template <class T, Step kStep>
struct AdamW {
  static constexpr int kThreads = 256, kAtOnce = 4;
  struct Shared {
    float correction1, correction2;
  };
  Rates rates;
  const std::int64_t* steps;
  float* gradient;
  T* parameters;
  float *m, *v, *master;  // master: the parameters themselves where they are fp32
  std::int64_t elements;
  bool wide;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    team.each([&](int thread) {
      if (thread != 0) return;
      team.shared.correction1 = correction(rates.beta1, *steps + 1);
      team.shared.correction2 = correction(rates.beta2, *steps + 1);
    });
    team.each([&](int thread) {
      const float correction1 = team.shared.correction1, correction2 = team.shared.correction2;
      stride<kAtOnce>(team.block() * kThreads + thread, team.blocks() * kThreads, elements, wide,
                      [&](auto width, std::int64_t i) { step<width()>(i, correction1, correction2); });
    });
  }

  // In double: 1 - 0.999f has three digits in fp32.
  REHEARSAL_DEVICE static float correction(float beta, std::int64_t t) {
    return float(1 - std::pow(double(beta), double(t)));
  }
  // What a step subtracts from a parameter, given the moments after it. 0 for a parameter that never had a gradient.
  REHEARSAL_DEVICE float update(float m_after, float v_after, float correction1, float correction2) const {
    const float denominator = std::sqrt(v_after / correction2) + rates.epsilon;
    const float quotient = rates.learning_rate * (m_after / correction1) / denominator;
    return denominator > 0 ? quotient : 0;
  }
  template <int N>
  REHEARSAL_DEVICE void step(std::int64_t i, float correction1, float correction2) const {
    const float b1 = rates.beta1, b2 = rates.beta2, decay = 1 - rates.learning_rate * rates.weight_decay;
    const Floats<N> g = load<N>(gradient + i);
    Floats<N> first = load<N>(m + i), second = load<N>(v + i), x = load<N>(master + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) {
      if constexpr (kStep != Step::undo) {
        first[e] = b1 * first[e] + (1 - b1) * g[e];
        second[e] = b2 * second[e] + (1 - b2) * g[e] * g[e];
        x[e] = x[e] * decay - update(first[e], second[e], correction1, correction2);
      } else {
        x[e] = (x[e] + update(first[e], second[e], correction1, correction2)) / decay;
        first[e] = (first[e] - (1 - b1) * g[e]) / b1;
        // Rounding may leave a v near 0 slightly negative, where the square root does not exist.
        const float before = (second[e] - (1 - b2) * g[e] * g[e]) / b2;
        second[e] = before < 0 ? 0 : before;
      }
    }
    store<N>(m + i, first), store<N>(v + i, second), store<N>(master + i, x);
    if constexpr (!std::is_same_v<T, float>) store<N>(parameters + i, x);
    if constexpr (kStep == Step::take_and_clear) store<N>(gradient + i, Floats<N>{});
  }
};

// AdaLOMO (arXiv 2310.10195, algorithm 1), as in its authors' code (OpenLMLab/LOMO, lomo_optim/adalomo.py):
//   beta = 1 - t'^-0.8;  r' = beta r + (1-beta) mean over columns of g^2 + 1e-30, and c' over rows
//   u = g / sqrt(r' c' / mean(r')), divided by max(1, rms(u));  theta' = theta - lr max(1e-3, rms(theta)) u
// One matrix per block: sums of rows and columns, then the norms of the update and of the parameters, then the step. A
// vector is a matrix of one row without a row moment.
template <class T>
struct AdaLomo {
  static constexpr int kThreads = 256;
  using Shared = Nothing;
  float rate;
  const std::int64_t* steps;
  float* gradient;
  T* parameters;
  float *row, *column;  // row is null for a vector
  std::int64_t rows, columns;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    const double beta = 1 - std::pow(double(*steps + 1), -.8);
    team.each([&](int thread) {
      for (std::int64_t r = thread; row && r < rows; r += kThreads) {
        double sum = 0;
        for (std::int64_t c = 0; c < columns; ++c) sum += square(r * columns + c);
        row[r] = decayed(row[r], sum / double(columns), beta);
      }
      for (std::int64_t c = thread; c < columns; c += kThreads) {
        double sum = 0;
        for (std::int64_t r = 0; r < rows; ++r) sum += square(r * columns + c);
        column[c] = decayed(column[c], sum / double(rows), beta);
      }
    });
    Local<Team, double> of_rows(team), of_updates(team), of_weights(team);
    team.each([&](int thread) {
      of_rows(thread) = 0;
      for (std::int64_t r = thread; row && r < rows; r += kThreads) of_rows(thread) += double(row[r]) / double(rows);
    });
    const double mean = team.sum(of_rows);
    team.each([&](int thread) {
      of_updates(thread) = of_weights(thread) = 0;
      for (std::int64_t i = thread; i < rows * columns; i += kThreads) {
        const double u = update(i, mean), x = double(widened(parameters[i]));
        of_updates(thread) += u * u, of_weights(thread) += x * x;
      }
    });
    const double n = double(rows * columns);
    const double updates = std::sqrt(team.sum(of_updates) / n), weights = std::sqrt(team.sum(of_weights) / n);
    const double step = double(rate) * (weights > 1e-3 ? weights : 1e-3) / (updates > 1 ? updates : 1);
    team.each([&](int thread) {
      for (std::int64_t i = thread; i < rows * columns; i += kThreads) {
        parameters[i] = stored<T>(float(double(widened(parameters[i])) - step * update(i, mean)));
        gradient[i] = 0;
      }
    });
  }

  REHEARSAL_DEVICE double square(std::int64_t i) const { return double(gradient[i]) * double(gradient[i]) + 1e-30; }
  REHEARSAL_DEVICE static float decayed(float kept, double mean, double beta) {
    return float(beta * double(kept) + (1 - beta) * mean);
  }
  REHEARSAL_DEVICE double update(std::int64_t i, double mean) const {
    const double of_row = row ? double(row[i / columns]) / mean : 1;
    return double(gradient[i]) / std::sqrt(of_row * double(column[i % columns]));
  }
};

// Muon (Jordan et al. 2024). m' = mu m + g, and in place of g what the step orthogonalises, Nesterov's g + mu m'.
struct Momentum {
  static constexpr int kAtOnce = 4;
  float* gradient;
  float* moment;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    Floats<N> g = load<N>(gradient + i), m = load<N>(moment + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) {
      m[e] = kMuonMomentum * m[e] + g[e];
      g[e] += kMuonMomentum * m[e];
    }
    store<N>(moment + i, m), store<N>(gradient + i, g);
  }
};

// x / (||x|| + 1e-7), of all elements: no singular value is above 1 then. One block.
struct OverFrobenius {
  static constexpr int kThreads = 256;
  static constexpr double kOffset = 1e-7;
  using Shared = Nothing;
  float* x;
  std::int64_t elements;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    Local<Team, double> squares(team);
    team.each([&](int thread) {
      squares(thread) = 0;
      for (std::int64_t i = thread; i < elements; i += kThreads) squares(thread) += double(x[i]) * double(x[i]);
    });
    const double norm = std::sqrt(team.sum(squares)) + kOffset;
    team.each([&](int thread) {
      for (std::int64_t i = thread; i < elements; i += kThreads) x[i] = float(double(x[i]) / norm);
    });
  }
};

// b = f a + g b: what is no product of a Newton-Schulz iteration (base/kernels.hpp).
struct TwoScaled {
  static constexpr int kAtOnce = 4;
  const float* a;
  float* b;
  float of_a, of_b;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const Floats<N> x = load<N>(a + i);
    Floats<N> y = load<N>(b + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) y[e] = of_a * x[e] + of_b * y[e];
    store<N>(b + i, y);
  }
};

// theta' = theta (1 - lr wd) - lr u, and clears u (Liu et al., arXiv 2502.16982, equation 4: u is scaled already).
template <class T>
struct MuonStep {
  static constexpr int kAtOnce = 4;
  float rate, decay;  // decay: 1 - lr wd
  float* update;
  T* parameters;
  float* master;  // null: the stored parameters are the only copy
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const Floats<N> u = load<N>(update + i);
    Floats<N> x = master ? load<N>(master + i) : load<N>(parameters + i);
    REHEARSAL_UNROLL
    for (int e = 0; e < N; ++e) x[e] = x[e] * decay - rate * u[e];
    if (master) store<N>(master + i, x);
    store<N>(parameters + i, x);
    store<N>(update + i, Floats<N>{});
  }
};

// Summands: squares of the first `elements` entries.
struct Squares {
  const float* gradient;
  std::int64_t elements;
  template <class Take>
  REHEARSAL_DEVICE void each(std::int64_t begin, std::int64_t step, const Take& take) const {
    for (std::int64_t i = begin; i < elements; i += step) take(double(gradient[i]) * double(gradient[i]));
  }
};

// Summands: squares of the entries in the counted ranges.
struct CountedSquares {
  const float* gradient;
  const Range* counted;
  std::int64_t ranges;
  template <class Take>
  REHEARSAL_DEVICE void each(std::int64_t begin, std::int64_t step, const Take& take) const {
    for (std::int64_t r = 0; r < ranges; ++r)
      for (std::int64_t i = counted[r].begin + begin; i < counted[r].end; i += step)
        take(double(gradient[i]) * double(gradient[i]));
  }
};

}  // namespace rehearsal::kernels
