// The steps of kernels/optimizer.hpp, element after element. Arithmetic in fp32, as optimizers keep their states.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cpu/functions.hpp"

namespace rehearsal::cpu {
namespace {

template <kernels::Step kStep>
void steps(std::int64_t elements, const kernels::Rates& rates, std::int64_t step, float* gradient, float* parameters,
           float* moments) {
  float *m = moments, *v = moments + elements;
  const kernels::AdamW<float, kStep> adam{rates, nullptr, gradient, parameters, m, v, parameters, elements, false};
  const float correction1 = adam.correction(rates.beta1, step + 1),
              correction2 = adam.correction(rates.beta2, step + 1);
  for (std::int64_t i = 0; i < elements; ++i) adam.template step<1>(i, correction1, correction2);
}

}  // namespace

void sgd(std::int64_t elements, const backend::TrainingData& learning, float* gradient, float* parameters) {
  for (std::int64_t i = 0; i < elements; ++i) parameters[i] -= learning.learning_rate * gradient[i];
  std::fill_n(gradient, elements, 0.f);
}

void adamw(std::int64_t elements, const backend::TrainingData& learning, std::int64_t step, kernels::Step what,
           float* gradient, float* parameters, float* moments) {
  const kernels::Rates rates{learning.learning_rate, learning.beta1, learning.beta2, learning.epsilon,
                             learning.weight_decay};
  switch (what) {
    case kernels::Step::take_and_clear:
      return steps<kernels::Step::take_and_clear>(elements, rates, step, gradient, parameters, moments);
    case kernels::Step::take:
      return steps<kernels::Step::take>(elements, rates, step, gradient, parameters, moments);
    case kernels::Step::undo:
      INVARIANT(rates.beta1 > 0 && rates.beta2 > 0 && rates.learning_rate * rates.weight_decay != 1,
                "a step that forgets the state before it cannot be taken back");
      return steps<kernels::Step::undo>(elements, rates, step, gradient, parameters, moments);
  }
}

void adalomo(Shape shape, const backend::TrainingData& learning, std::int64_t step, float* gradient, float* parameters,
             float* moment) {
  const auto [rows, columns] = shape;
  const double beta = 1 - std::pow(double(step + 1), -.8), n = double(shape.elements());
  const bool vector = rows == 1;
  const kernels::AdaLomo<float> matrix{
      learning.learning_rate,          nullptr, gradient, parameters, vector ? nullptr : moment,
      vector ? moment : moment + rows, rows,    columns};
  double mean = 0;
  for (std::int64_t r = 0; r < rows && !vector; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < columns; ++c) sum += matrix.square(r * columns + c);
    matrix.row[r] = matrix.decayed(matrix.row[r], sum / double(columns), beta);
    mean += double(matrix.row[r]) / double(rows);
  }
  for (std::int64_t c = 0; c < columns; ++c) {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) sum += matrix.square(r * columns + c);
    matrix.column[c] = matrix.decayed(matrix.column[c], sum / double(rows), beta);
  }
  double updates = 0, weights = 0;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const double update = matrix.update(i, mean);
    updates += update * update, weights += double(parameters[i]) * double(parameters[i]);
  }
  const double rate =
      double(learning.learning_rate) * std::max(1e-3, std::sqrt(weights / n)) / std::max(1., std::sqrt(updates / n));
  for (std::int64_t i = 0; i < rows * columns; ++i)
    parameters[i] = float(double(parameters[i]) - rate * matrix.update(i, mean));
  std::fill_n(gradient, rows * columns, 0.f);
}

namespace {

// A body of kernels/optimizer.hpp, element after element.
template <class Body>
void each(const Body& body, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) body.template at<1>(i);
}

}  // namespace

void momentum(std::int64_t elements, float* gradient, float* moment) {
  each(kernels::Momentum{gradient, moment}, elements);
}

void over_frobenius(std::int64_t elements, float* x) {
  const double norm = std::sqrt(summed(kernels::Squares{x, elements})) + kernels::OverFrobenius::kOffset;
  for (std::int64_t i = 0; i < elements; ++i) x[i] = float(double(x[i]) / norm);
}

void newton_schulz(const Kernel& kernel, const float* a, float* b) {
  const auto [of_a, of_b] = newton_schulz_factors(kernel);
  each(kernels::TwoScaled{a, b, of_a, of_b}, kernel.dims[0]);
}

void muon(std::int64_t elements, const backend::TrainingData& learning, float* update, float* parameters) {
  const float decay = 1 - learning.learning_rate * learning.weight_decay;
  each(kernels::MuonStep<float>{learning.learning_rate, decay, update, parameters, nullptr}, elements);
}

double sum_of_squares(std::span<const Range> ranges, const float* values) {
  return summed(kernels::CountedSquares{values, ranges.data(), static_cast<std::int64_t>(ranges.size())});
}

}  // namespace rehearsal::cpu
