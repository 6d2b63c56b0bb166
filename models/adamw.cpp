#include "models/adamw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace rehearsal::models {
namespace {

void check(const AdamW& o, const AdamWState& state, std::span<const float> gradient) {
  const auto beta = [](float b, const char* name) {
    if (!(b >= 0 && b < 1)) throw UserError(fmt::format("AdamW: {} is {}; it lies in [0, 1)", name, b));
  };
  beta(o.beta1, "beta1"), beta(o.beta2, "beta2");
  if (!(o.learning_rate >= 0) || !(o.weight_decay >= 0) || !(o.epsilon >= 0))
    throw UserError("AdamW: learning rate, weight decay and epsilon are 0 or more");
  INVARIANT(state.momentum.size() == state.weight.size() && state.variance.size() == state.weight.size() &&
                gradient.size() == state.weight.size(),
            "one entry of each per weight");
}

// 1 - beta^t, in double: 1 - 0.999f^1 has three digits in fp32.
float bias_correction(float beta, std::int64_t t) { return static_cast<float>(1 - std::pow(double(beta), double(t))); }

// The part of the step that depends on the state after it; 0 where nothing ever had a gradient.
struct Update {
  float correction1, correction2;
  Update(const AdamW& o, std::int64_t t)
      : correction1(bias_correction(o.beta1, t)), correction2(bias_correction(o.beta2, t)) {}
  float operator()(const AdamW& o, float momentum, float variance) const {
    const float denominator = std::sqrt(variance / correction2) + o.epsilon;
    return denominator > 0 ? o.learning_rate * (momentum / correction1) / denominator : 0;
  }
};

void compare(const std::vector<float>& a, const std::vector<float>& b, double& relative, double& largest) {
  INVARIANT(a.size() == b.size(), "states of one shape");
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); i++) {
    const double d = double(a[i]) - double(b[i]);
    difference += d * d, norm += double(b[i]) * double(b[i]);
    largest = std::max(largest, std::abs(d));
  }
  relative = difference == 0 ? 0 : std::sqrt(difference / norm);
}

}  // namespace

void step(const AdamW& options, AdamWState& state, std::span<const float> gradient) {
  check(options, state, gradient);
  const Update update(options, ++state.steps);
  const float decay = 1 - options.learning_rate * options.weight_decay;
  for (std::size_t i = 0; i < gradient.size(); i++) {
    const float g = gradient[i];
    float &theta = state.weight[i], &m = state.momentum[i], &v = state.variance[i];
    m = options.beta1 * m + (1 - options.beta1) * g;
    v = options.beta2 * v + (1 - options.beta2) * g * g;
    theta = theta * decay - update(options, m, v);
  }
}

void rollback(const AdamW& options, AdamWState& state, std::span<const float> gradient) {
  check(options, state, gradient);
  const float decay = 1 - options.learning_rate * options.weight_decay;
  if (options.beta1 == 0 || options.beta2 == 0)
    throw UserError("AdamW: with a beta of 0 a step forgets the state before it and cannot be taken back");
  if (decay == 0) throw UserError("AdamW: learning rate x weight decay = 1 forgets the weights");
  if (state.steps < 1) throw UserError("AdamW: no step has been taken that could be taken back");
  const Update update(options, state.steps--);
  for (std::size_t i = 0; i < gradient.size(); i++) {
    const float g = gradient[i];
    float &theta = state.weight[i], &m = state.momentum[i], &v = state.variance[i];
    theta = (theta + update(options, m, v)) / decay;  // with m and v as the step left them
    m = (m - (1 - options.beta1) * g) / options.beta1;
    // Rounding may leave a v that was nearly 0 below it, where no square root exists.
    v = std::max(0.f, (v - (1 - options.beta2) * g * g) / options.beta2);
  }
}

AdamWDifference difference(const AdamWState& a, const AdamWState& b) {
  AdamWDifference result;
  compare(a.weight, b.weight, result.weight, result.largest_weight);
  compare(a.momentum, b.momentum, result.momentum, result.largest_momentum);
  compare(a.variance, b.variance, result.variance, result.largest_variance);
  return result;
}

}  // namespace rehearsal::models
