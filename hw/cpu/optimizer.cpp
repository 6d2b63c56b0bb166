// SGD, AdaLOMO, and AdamW with bias correction and decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101,
// algorithm 2), and its inverse for optimizer post-validation (Zero Bubble, arXiv 2401.10241, section 4). With t' =
// steps + 1:
//   m' = b1 m + (1-b1) g;  v' = b2 v + (1-b2) g^2
//   theta' = theta (1 - lr wd) - lr mhat / (sqrt(vhat) + eps),  mhat = m' / (1 - b1^t'), vhat = v' / (1 - b2^t')
// moments = [m, v]. Arithmetic in fp32, as optimizers keep their states.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cpu/functions.hpp"

namespace rehearsal::cpu {
namespace {

// In double: 1 - 0.999f has three digits in fp32.
float correction(float beta, std::int64_t t) { return float(1 - std::pow(double(beta), double(t))); }

// What a step subtracts from a parameter, given the moments after it. 0 for a parameter that never had a gradient.
struct Update {
  float rate, epsilon, correction1, correction2;
  Update(const backend::TrainingData& o, std::int64_t t)
      : rate(o.learning_rate),
        epsilon(o.epsilon),
        correction1(correction(o.beta1, t)),
        correction2(correction(o.beta2, t)) {}
  float operator()(float m, float v) const {
    const float denominator = std::sqrt(v / correction2) + epsilon;
    const float quotient = rate * (m / correction1) / denominator;
    return denominator > 0 ? quotient : 0;
  }
};

}  // namespace

void sgd(std::int64_t elements, const backend::TrainingData& learning, float* gradient, float* parameters) {
  for (std::int64_t i = 0; i < elements; ++i) parameters[i] -= learning.learning_rate * gradient[i];
  std::fill_n(gradient, elements, 0.f);
}

double clipped(double squared_norm) { return std::min(1., kLargestNorm / (std::sqrt(squared_norm) + kNormOffset)); }

void adamw(std::int64_t elements, const backend::TrainingData& learning, std::int64_t step, bool keep, float* gradient,
           float* parameters, float* moments) {
  const Update update(learning, step + 1);
  const float b1 = learning.beta1, b2 = learning.beta2, decay = 1 - learning.learning_rate * learning.weight_decay;
  float *m = moments, *v = moments + elements;
  for (std::int64_t i = 0; i < elements; ++i) {
    m[i] = b1 * m[i] + (1 - b1) * gradient[i];
    v[i] = b2 * v[i] + (1 - b2) * gradient[i] * gradient[i];
    parameters[i] = parameters[i] * decay - update(m[i], v[i]);
  }
  if (!keep) std::fill_n(gradient, elements, 0.f);
}

// Inverts the step that was taken with the same gradient and the same `step`.
void adamw_rollback(std::int64_t elements, const backend::TrainingData& learning, std::int64_t step,
                    const float* gradient, float* parameters, float* moments) {
  const Update update(learning, step + 1);
  const float b1 = learning.beta1, b2 = learning.beta2, decay = 1 - learning.learning_rate * learning.weight_decay;
  INVARIANT(b1 > 0 && b2 > 0 && decay != 0, "a step that forgets the state before it cannot be taken back");
  float *m = moments, *v = moments + elements;
  for (std::int64_t i = 0; i < elements; ++i) {
    parameters[i] = (parameters[i] + update(m[i], v[i])) / decay;  // with the moments as the step left them
    m[i] = (m[i] - (1 - b1) * gradient[i]) / b1;
    // Rounding may leave a v near 0 slightly negative, where the square root does not exist.
    v[i] = std::max(0.f, (v[i] - (1 - b2) * gradient[i] * gradient[i]) / b2);
  }
}

// AdaLOMO (arXiv 2310.10195, algorithm 1), as in its authors' code (OpenLMLab/LOMO, lomo_optim/adalomo.py):
//   beta = 1 - t'^-0.8;  r' = beta r + (1-beta) mean over columns of g^2 + 1e-30, and c' over rows
//   u = g / sqrt(r' c' / mean(r')), divided by max(1, rms(u));  theta' = theta - lr max(1e-3, rms(theta)) u
void adalomo(Shape shape, const backend::TrainingData& learning, std::int64_t step, float* gradient, float* parameters,
             float* moment) {
  const auto [rows, columns] = shape;
  const double beta = 1 - std::pow(double(step + 1), -.8), n = double(shape.elements());
  const auto square = [&](std::int64_t i) { return double(gradient[i]) * double(gradient[i]) + 1e-30; };
  const auto decayed = [&](float& kept, double mean) { kept = float(beta * double(kept) + (1 - beta) * mean); };
  const bool vector = rows == 1;
  float *row = moment, *column = vector ? moment : moment + rows;
  double mean = 0;
  for (std::int64_t r = 0; r < rows && !vector; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += square(r * columns + c);
    decayed(row[r], sum / double(columns));
    mean += double(row[r]) / double(rows);
  }
  for (std::int64_t c = 0; c < columns; ++c) {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) sum += square(r * columns + c);
    decayed(column[c], sum / double(rows));
  }
  const auto update = [&](std::int64_t i) {
    const double of_row = vector ? 1 : double(row[i / columns]) / mean;
    return double(gradient[i]) / std::sqrt(of_row * double(column[i % columns]));
  };
  double updates = 0, weights = 0;
  for (std::int64_t i = 0; i < rows * columns; ++i)
    updates += update(i) * update(i), weights += double(parameters[i]) * double(parameters[i]);
  const double rate =
      double(learning.learning_rate) * std::max(1e-3, std::sqrt(weights / n)) / std::max(1., std::sqrt(updates / n));
  for (std::int64_t i = 0; i < rows * columns; ++i) parameters[i] = float(double(parameters[i]) - rate * update(i));
  std::fill_n(gradient, rows * columns, 0.f);
}

double sum_of_squares(std::span<const Range> ranges, const float* values) {
  double squares = 0;
  for (const Range& range : ranges)
    for (std::int64_t i = range.begin; i < range.end; ++i) squares += double(values[i]) * double(values[i]);
  return squares;
}

}  // namespace rehearsal::cpu
