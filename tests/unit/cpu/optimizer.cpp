#include "run.hpp"

namespace rehearsal::cpu {
namespace {

constexpr auto kOwn = static_cast<std::int64_t>(Flat::own), kPart = static_cast<std::int64_t>(Flat::part);
constexpr backend::TrainingData kLearning{.learning_rate = 3e-3f, .weight_decay = .1f};

// AdamW of one entry in double, as PyTorch documents it: theta is decayed first, then moved.
struct Entry {
  double theta, m = 0, v = 0;
  void step(double g, int t) {
    const double rate = double(kLearning.learning_rate), b1 = double(kLearning.beta1), b2 = double(kLearning.beta2);
    theta -= rate * double(kLearning.weight_decay) * theta;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    theta -= rate * (m / (1 - std::pow(b1, t))) / (std::sqrt(v / (1 - std::pow(b2, t))) + double(kLearning.epsilon));
  }
};

}  // namespace

TEST_CASE("sgd moves against the gradient and clears it") {
  const backend::TrainingData learning{.learning_rate = .5f};
  Floats gradient{2, -4}, parameters{1, 1};
  run(KernelKind::sgd, {2, kOwn, kOwn}, {&gradient, &parameters}, {.learning = &learning});
  CHECK(parameters == Floats{0, 3});
  CHECK(gradient == Floats{0, 0});
}

TEST_CASE("five steps of adamw follow the formula") {
  constexpr std::int64_t e = 50;
  Floats parameters = random(e, 1), moments(2 * e, 0);
  std::vector<Entry> expected;
  for (const float p : parameters) expected.push_back({double(p)});
  for (int step = 0; step < 5; ++step) {
    Floats gradient = random(e, 100 + step);
    for (std::int64_t i = 0; i < e; ++i) expected[i].step(double(gradient[i]), step + 1);
    run(KernelKind::adamw, {e, kOwn, kOwn}, {&gradient, &parameters, &moments}, {.learning = &kLearning, .step = step});
    CHECK(gradient == Floats(e, 0));
  }
  Doubles theta, both;
  for (const Entry& entry : expected) theta.push_back(entry.theta), both.push_back(entry.m);
  for (const Entry& entry : expected) both.push_back(entry.v);
  CHECK(distance(parameters, theta) < 1e-6);
  CHECK(distance(moments, both) < 1e-5);  // 1 - b1 itself has a relative error of 1e-7 in fp32, 1 - b2 of 1e-5
}

TEST_CASE("steps of adalomo follow the formula, of a matrix and of a vector") {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{5, 7}, {1, 9}}) {
    const std::int64_t e = rows * columns, kept = rows == 1 ? columns : rows + columns;
    Floats parameters = random(e, 1), moment(kept, 0);
    Doubles theta = wide(parameters), r(rows, 0), c(columns, 0);
    for (int step = 1; step <= 4; ++step) {
      Floats gradient = random(e, 10 + step);
      const Doubles g = wide(gradient);
      const double beta = 1 - std::pow(step, -.8);
      Doubles of_rows(rows, 0), of_columns(columns, 0);
      for (std::int64_t i = 0; i < e; ++i) {
        of_rows[i / columns] += g[i] * g[i] / double(columns), of_columns[i % columns] += g[i] * g[i] / double(rows);
      }
      double mean = 0;
      for (std::int64_t i = 0; i < rows; ++i) r[i] = beta * r[i] + (1 - beta) * of_rows[i], mean += r[i] / double(rows);
      for (std::int64_t i = 0; i < columns; ++i) c[i] = beta * c[i] + (1 - beta) * of_columns[i];
      Doubles u(e);
      double size = 0, weight = 0;
      for (std::int64_t i = 0; i < e; ++i) {
        u[i] = g[i] / std::sqrt(rows == 1 ? c[i] : r[i / columns] * c[i % columns] / mean);
        size += u[i] * u[i] / double(e), weight += theta[i] * theta[i] / double(e);
      }
      for (std::int64_t i = 0; i < e; ++i)
        theta[i] -=
            double(kLearning.learning_rate) * std::max(1e-3, std::sqrt(weight)) * u[i] / std::max(1., std::sqrt(size));
      run(KernelKind::adalomo, {rows, columns, 1}, {&gradient, &parameters, &moment},
          {.learning = &kLearning, .step = step - 1});
      CHECK(gradient == Floats(e, 0));
    }
    Doubles both = rows == 1 ? c : r;
    if (rows > 1) both.insert(both.end(), c.begin(), c.end());
    CHECK(distance(parameters, theta) < 1e-6);
    CHECK(distance(moment, both) < 1e-6);
  }
}

TEST_CASE("a rollback takes back the step that kept its gradient") {
  constexpr std::int64_t e = 200;
  Floats parameters = random(e, 1), moments(2 * e, 0);
  for (int step = 0; step < 3; ++step) {
    Floats gradient = random(e, 10 + step);
    run(KernelKind::adamw, {e, kOwn, kOwn}, {&gradient, &parameters, &moments}, {.learning = &kLearning, .step = step});
  }
  const Floats before = parameters, moments_before = moments, kept = random(e, 20);
  Floats gradient = kept;
  const KernelContext fourth{.learning = &kLearning, .step = 3};
  run(KernelKind::adamw_keep, {e, kOwn, kOwn}, {&gradient, &parameters, &moments}, fourth);
  CHECK(gradient == kept);
  CHECK(distance(parameters, wide(before)) > 1e-4);  // it did move
  run(KernelKind::adamw_rollback, {e, kOwn, kOwn}, {&gradient, &parameters, &moments}, fourth);
  CHECK(gradient == kept);
  CHECK(distance(parameters, wide(before)) < 1e-5);
  CHECK(distance(moments, wide(moments_before)) < 1e-5);
}

// Two shards of two elements; the rank with data index 1 updates the second one and no other.
TEST_CASE("parts of flat buffers") {
  const backend::TrainingData learning{.learning_rate = 1};
  const KernelContext second{.data = 1, .learning = &learning};
  Floats gradient{1, 2, 3, 4}, parameters{10, 10, 10, 10};
  run(KernelKind::sgd, {2, kPart, kPart}, {&gradient, &parameters}, second);
  CHECK(parameters == Floats{10, 10, 7, 6});
  CHECK(gradient == Floats{1, 2, 0, 0});
  Floats own{5, 6}, shard{20, 20};
  run(KernelKind::sgd, {2, kOwn, kPart}, {&own, &parameters}, second);
  CHECK(parameters == Floats{10, 10, 2, 0});
  gradient = {1, 2, 3, 4};
  run(KernelKind::sgd, {2, kPart, kOwn}, {&gradient, &shard}, second);
  CHECK(shard == Floats{17, 16});
}

// Of the own gradient 3, 4, 5 the entries 1 and 2 count: 16 + 25.
TEST_CASE("squares of the gradient, where they count") {
  const backend::TrainingData learning{};
  const std::vector<Range> counted{{1, 3}};
  double squares = 1;
  Floats gradient{0, 0, 0, 3, 4, 5}, parameters(3), moments(6);
  KernelContext around{.data = 1, .learning = &learning, .counted = counted, .squared_gradients = &squares};
  run(KernelKind::adamw_keep, {3, kPart, kOwn}, {&gradient, &parameters, &moments}, around);
  CHECK(squares == 42);
  run(KernelKind::adamw_rollback, {3, kPart, kOwn}, {&gradient, &parameters, &moments}, around);
  CHECK(squares == 42);  // it uses nothing up
}

}  // namespace rehearsal::cpu
