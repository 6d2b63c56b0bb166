#include "models/adamw.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "base/error.hpp"

using namespace rehearsal;
using namespace rehearsal::models;

namespace {

constexpr double kRounding = 0x1p-24;  // half a unit in the last place of fp32, relative

// Normal numbers from uniform bits by hand (Box-Muller): library distributions differ between machines.
class Normal {
 public:
  explicit Normal(std::uint32_t seed) : bits_(seed) {}
  float operator()() {
    const double u = (double(bits_()) + 1) / 4294967297., w = double(bits_()) / 4294967296.;
    return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * w));
  }

 private:
  std::mt19937 bits_;
};

std::vector<float> tensor(std::size_t n, double scale, std::uint32_t seed) {
  Normal normal(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(scale) * normal();
  return values;
}

AdamWState fresh(std::size_t n, std::uint32_t seed) {
  return {tensor(n, 0.02, seed), std::vector<float>(n), std::vector<float>(n), 0};
}

}  // namespace

TEST_CASE("AdamW: hand-solved first step") {
  // t = 1: m = 0.1 g = 0.05, v = 0.001 g^2 = 0.00025; corrected they are g = 0.5 and g^2 = 0.25, so that the step is
  // lr * 0.5 / (0.5 + eps) = lr = 0.1; decay 1 - 0.1 * 0.5 = 0.95: 2 * 0.95 - 0.1 = 1.8.
  const AdamW options{.learning_rate = 0.1f, .epsilon = 0, .weight_decay = 0.5f};
  AdamWState state{{2}, {0}, {0}, 0};
  const std::vector<float> gradient{0.5f};
  step(options, state, gradient);
  CHECK(state.weight[0] == doctest::Approx(1.8));
  CHECK(state.momentum[0] == doctest::Approx(0.05));
  CHECK(state.variance[0] == doctest::Approx(0.00025));
  CHECK(state.steps == 1);
  // Back: (1.8 + 0.1) / 0.95 = 2; (0.05 - 0.05) / 0.9 = 0; v likewise.
  rollback(options, state, gradient);
  CHECK(state.weight[0] == doctest::Approx(2));
  CHECK(std::abs(state.momentum[0]) < 1e-8);
  CHECK(std::abs(state.variance[0]) < 1e-9);
  CHECK(state.steps == 0);
}

TEST_CASE("a step taken back leaves a state within a few roundings") {
  constexpr std::size_t kSize = 4096;
  struct Case {
    const char* name;
    AdamW options;
    double gradient, last_gradient;  // scales: of the steps before, of the one that is taken back
    int before;
  };
  const AdamW usual, large{.learning_rate = 10.f, .weight_decay = 0.05f};
  for (const auto& c : {Case{"first step", usual, 1, 1, 0}, Case{"after 10", usual, 1, 1, 10},
                        Case{"large learning rate", large, 1, 1, 10}, Case{"small variance", usual, 1e-12, 1e-12, 10},
                        Case{"exploding gradient", usual, 1e-3, 1e3, 10}, Case{"vanishing", usual, 1, 1e-6, 10}}) {
    CAPTURE(c.name);
    auto state = fresh(kSize, 7);
    for (int t = 0; t < c.before; t++) step(c.options, state, tensor(kSize, c.gradient, 100 + t));
    const auto before = state;
    const auto gradient = tensor(kSize, c.last_gradient, 99);
    step(c.options, state, gradient);
    const auto moved = difference(state, before);
    rollback(c.options, state, gradient);
    const auto left = difference(state, before);
    fmt::print("AdamW, {:<20} moved {:.1e}, left after rollback: weight {:.1e}, momentum {:.1e}, variance {:.1e}\n",
               c.name, moved.weight, left.weight, left.momentum, left.variance);
    CHECK(state.steps == before.steps);
    // The weight: the product, the difference, the sum and the quotient round once each, of numbers no larger than the
    // weight and the step; the step itself is computed twice from the same numbers, so its error cancels.
    double weight = 0, step_size = 0;
    for (std::size_t i = 0; i < kSize; i++) {
      weight = std::max(weight, double(std::abs(before.weight[i])));
      step_size = std::max(step_size, double(c.options.learning_rate) * 10);  // |mhat| / sqrt(vhat) <= 10 here
    }
    const double decay = 1 - double(c.options.learning_rate) * double(c.options.weight_decay);
    CHECK(left.largest_weight <= 4 * kRounding * (weight + step_size) / decay);
    // m' = b1 m + (1-b1) g with three roundings, back with three more, all of numbers below |b1 m| + |(1-b1) g|, and a
    // division by b1. v likewise with g^2.
    double m = 0, v = 0;
    for (std::size_t i = 0; i < kSize; i++) {
      m = std::max(m, std::abs(0.9 * double(before.momentum[i])) + 0.1 * std::abs(double(gradient[i])));
      v = std::max(v, double(before.variance[i]) + 0.001 * double(gradient[i]) * double(gradient[i]));
    }
    CHECK(left.largest_momentum <= 6 * kRounding * m / 0.9);
    CHECK(left.largest_variance <= 8 * kRounding * v / 0.999 + 1e-44);  // fp32 has no numbers below 1.4e-45
    for (const float value : state.variance) CHECK_FALSE(value < 0);
  }
}

TEST_CASE("what cannot be undone is refused; zero gradients are undone exactly") {
  auto state = fresh(4, 1);
  const std::vector<float> gradient(4);
  CHECK_THROWS_AS(rollback({}, state, gradient), UserError);  // nothing to take back
  const auto before = state;
  step({.weight_decay = 0}, state, gradient);
  CHECK(state.weight == before.weight);
  CHECK_THROWS_AS(rollback({.beta1 = 0}, state, gradient), UserError);
  CHECK_THROWS_AS(rollback({.beta2 = 0}, state, gradient), UserError);
  CHECK_THROWS_AS(rollback({.learning_rate = 2, .weight_decay = 0.5f}, state, gradient), UserError);
  CHECK_THROWS_AS(step({.beta1 = 1}, state, gradient), UserError);
  CHECK(state.steps == 1);  // refused calls change nothing
  rollback({.weight_decay = 0}, state, gradient);
  CHECK(difference(state, before).weight == 0);
  CHECK(state.steps == 0);
}
