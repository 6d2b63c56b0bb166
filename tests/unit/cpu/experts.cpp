// Routing, moving rows to experts and back, and the experts' products, against definitions in double without slots.
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "oracle.hpp"
#include "run.hpp"

namespace rehearsal::cpu {
namespace {

constexpr double kClose = 2e-6;

std::int32_t whole(float stored) { return std::bit_cast<std::int32_t>(stored); }
std::vector<std::int32_t> whole(const Floats& stored) {
  std::vector<std::int32_t> all;
  for (const float v : stored) all.push_back(whole(v));
  return all;
}

Doubles softmax(const Doubles& logits, std::int64_t row, std::int64_t E) {
  Doubles p(logits.begin() + row * E, logits.begin() + (row + 1) * E);
  double sum = 0;
  for (double& v : p) sum += v = std::exp(v);
  for (double& v : p) v /= sum;
  return p;
}

// The experts of every row, best first, by sorting.
std::vector<std::vector<std::int64_t>> best(const Floats& logits, std::int64_t E, std::int64_t k) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::size_t row = 0; row < logits.size() / E; ++row) {
    std::vector<std::int64_t> order(E);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return logits[row * E + a] > logits[row * E + b]; });
    order.resize(k);
    all.push_back(order);
  }
  return all;
}

// Weights of the chosen experts, all rows.
Doubles weights_of(const Doubles& logits, const std::vector<std::vector<std::int64_t>>& experts, std::int64_t E,
                   bool renormalised) {
  Doubles all;
  for (std::size_t row = 0; row < experts.size(); ++row) {
    const Doubles p = softmax(logits, std::int64_t(row), E);
    double sum = 0;
    for (const auto expert : experts[row]) sum += p[expert];
    for (const auto expert : experts[row]) all.push_back(p[expert] / (renormalised ? sum : 1));
  }
  return all;
}

struct Routed {
  Floats weights, slots, probabilities;
};
Routed routed(Floats logits, const KernelDims& dims) {
  const std::int64_t T = dims[0], E = dims[1], k = dims[2];
  Routed r{Floats(T * k, NAN), Floats(T * k, NAN), Floats(T * E, NAN)};
  run(KernelKind::route, dims, {&logits, &r.weights, &r.slots, &r.probabilities});
  return r;
}

}  // namespace

// Three rows, three experts, two of them each, room for two rows. Row 0 prefers 2, then 0; row 1 has equal logits for 0
// and 2 and takes the lower one first; row 2 prefers 0, which is full by then: -1 - 0.
TEST_CASE("rows get the slots of their experts in their order, and none beyond the capacity") {
  const auto r = routed({1, 0, 2, 5, 1, 5, 3, 2, 1}, {3, 3, 2, 2});
  CHECK(whole(r.slots) == std::vector<std::int32_t>{4, 0, 1, 5, -1, 2});
  // Room for all: no row is dropped.
  CHECK(whole(routed({1, 0, 2, 5, 1, 5, 3, 2, 1}, {3, 3, 2, 3}).slots) == std::vector<std::int32_t>{6, 0, 1, 7, 2, 3});
}

TEST_CASE("route: probabilities, the largest of them, and their weights") {
  for (const bool renormalised : {false, true})
    for (const auto& [T, E, k] : {std::array<std::int64_t, 3>{1, 1, 1}, {7, 5, 2}, {13, 16, 4}, {5, 3, 3}}) {
      CAPTURE(E);
      CAPTURE(renormalised);
      const Floats logits = random(T * E, 1, 2);
      const auto r = routed(logits, {T, E, k, T, renormalised});
      const auto experts = best(logits, E, k);
      for (std::int64_t row = 0; row < T; ++row) {
        const Doubles p = softmax(wide(logits), row, E);
        CHECK(distance(Floats(r.probabilities.begin() + row * E, r.probabilities.begin() + (row + 1) * E), p) < kClose);
      }
      CHECK(distance(r.weights, weights_of(wide(logits), experts, E, renormalised)) < kClose);
      std::map<std::int64_t, std::int64_t> rows_of;
      for (std::int64_t i = 0; i < T * k; ++i) {
        const std::int64_t expert = experts[i / k][i % k];
        CHECK(whole(r.slots[i]) == expert * T + rows_of[expert]++);
      }
    }
}

TEST_CASE("forced routings: in turn, or the first experts for all") {
  const Floats logits = random(6 * 4, 1);
  const auto even = routed(logits, {6, 4, 2, 6, 0, std::int64_t(Routing::balanced)});
  // Rows take experts 0 1, 2 3, 0 1, ..: three rows each.
  CHECK(whole(even.slots) == std::vector<std::int32_t>{0, 6, 12, 18, 1, 7, 13, 19, 2, 8, 14, 20});
  const auto skewed = routed(logits, {6, 4, 2, 6, 0, std::int64_t(Routing::skewed)});
  CHECK(whole(skewed.slots) == std::vector<std::int32_t>{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11});
  // Weights are those of the logits all the same.
  CHECK(double(skewed.weights[0]) == doctest::Approx(softmax(wide(logits), 0, 4)[0]).epsilon(1e-6));
}

TEST_CASE("the gradient of routing goes through softmax and renormalisation, also of rows that were dropped") {
  for (const bool renormalised : {false, true})
    for (const std::int64_t capacity : {9, 2}) {
      CAPTURE(renormalised);
      CAPTURE(capacity);
      constexpr std::int64_t T = 9, E = 5, k = 3;
      const Floats logits = random(T * E, 3, 2);
      auto r = routed(logits, {T, E, k, capacity, renormalised});
      const auto experts = best(logits, E, k);  // stays the same nearby
      Floats dweights = random(T * k, 4), dlogits(T * E, NAN);
      run(KernelKind::route_gradient, {T, E, k, capacity, renormalised},
          {&r.probabilities, &r.slots, &dweights, &dlogits});
      const Doubles direction = wide(dweights);
      const auto loss = [&](const Doubles& v) { return inner(direction, weights_of(v, experts, E, renormalised)); };
      CHECK(distance(dlogits, slopes(loss, wide(logits))) < kClose);
    }
}

// Rows without experts at all: y = sum of weight x row x f(expert), with f a scaling of the expert's rows.
TEST_CASE("rows go to their experts and come back with their weights; so do gradients") {
  for (const std::int64_t capacity : {7, 2}) {
    CAPTURE(capacity);
    constexpr std::int64_t T = 7, E = 4, k = 2, h = 5;
    const Floats logits = random(T * E, 5, 2);
    auto r = routed(logits, {T, E, k, capacity, 1});
    const KernelDims dims{T, h, k, E, capacity};
    Floats x = random(T * h, 6), sent(E * capacity * h, NAN);
    run(KernelKind::dispatch_rows, dims, {&x, &r.slots, &sent});
    // Unused slots are zero; every other one holds the row of its choice.
    std::map<std::int64_t, std::int64_t> row_in;
    for (std::int64_t i = 0; i < T * k; ++i)
      if (whole(r.slots[i]) >= 0) row_in[whole(r.slots[i])] = i / k;
    if (capacity == T) CHECK(row_in.size() == T * k);
    for (std::int64_t slot = 0; slot < E * capacity; ++slot)
      for (std::int64_t c = 0; c < h; ++c)
        CHECK(sent[slot * h + c] == (row_in.count(slot) ? x[row_in[slot] * h + c] : 0));

    // The experts scale their rows: 1, 2, 3, 4.
    const auto scale = [&](const Doubles& rows) {
      Doubles scaled = rows;
      for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] *= 1 + double(std::int64_t(i) / (capacity * h));
      return scaled;
    };
    const auto outcome = [&](const Doubles& in, const Doubles& weights) {
      Doubles y(T * h);
      for (std::int64_t i = 0; i < T * k; ++i)
        if (const auto slot = whole(r.slots[i]); slot >= 0)
          for (std::int64_t c = 0; c < h; ++c)
            y[i / k * h + c] += weights[i] * (1 + double(slot / capacity)) * in[i / k * h + c];
      return y;
    };
    Floats back, y(T * h, NAN);
    for (const double v : scale(wide(sent))) back.push_back(float(v));
    run(KernelKind::combine_rows, dims, {&back, &r.slots, &r.weights, &y});
    CHECK(distance(y, outcome(wide(x), wide(r.weights))) < kClose);

    Floats dy = random(T * h, 7), dback(back.size(), NAN), dweights(T * k, NAN), dx(T * h, NAN);
    run(KernelKind::combine_rows_gradient, dims, {&dy, &back, &r.slots, &r.weights, &dback, &dweights});
    Floats dsent;
    for (const double v : scale(wide(dback))) dsent.push_back(float(v));
    run(KernelKind::dispatch_rows_gradient, dims, {&dsent, &r.slots, &dx});
    const Doubles direction = wide(dy);
    CHECK(distance(dweights, slopes([&](const Doubles& v) { return inner(direction, outcome(wide(x), v)); },
                                    wide(r.weights))) < kClose);
    CHECK(distance(dx, slopes([&](const Doubles& v) { return inner(direction, outcome(v, wide(r.weights))); },
                              wide(x))) < kClose);
    for (std::int64_t slot = 0; slot < E * capacity; ++slot)
      if (!row_in.count(slot))
        for (std::int64_t c = 0; c < h; ++c) CHECK(dback[slot * h + c] == 0);
  }
}

// Two ranks sent rows to three experts here, four slots each.
TEST_CASE("experts multiply the rows that every rank sent them by their own weights") {
  constexpr std::int64_t e = 2, m = 3, C = 4, n = 5, k = 7;
  const KernelDims dims{e, m, C, n, k};
  Floats x = random(e * m * C * k, 1), weight = random(m * n * k, 2), y(e * m * C * n, NAN);
  const auto block = [](const Floats& all, std::int64_t number, std::int64_t size) {
    return Doubles(all.begin() + number * size, all.begin() + (number + 1) * size);
  };
  run(KernelKind::expert_linear, dims, {&x, &weight, &y});
  Floats dx(x.size(), NAN), dweight = random(weight.size(), 3);
  const Floats before = dweight;
  run(KernelKind::expert_linear_input_gradient, dims, {&y, &weight, &dx});
  run(KernelKind::expert_linear_weight_gradient, dims, {&y, &x, &dweight});
  Doubles ys, dxs, dweights = wide(before);
  for (std::int64_t i = 0; i < e * m; ++i) {
    const Doubles rows = block(x, i, C * k), w = block(weight, i % m, n * k), dy = block(y, i, C * n);
    for (const double v : oracle::product(C, n, k, rows, false, w, true)) ys.push_back(v);
    for (const double v : oracle::product(C, k, n, dy, false, w, false)) dxs.push_back(v);
    const Doubles more = oracle::product(n, k, C, dy, true, rows, false);
    for (std::int64_t j = 0; j < n * k; ++j) dweights[i % m * n * k + j] += more[j];
  }
  CHECK(distance(y, ys) < kClose);
  CHECK(distance(dx, dxs) < kClose);
  CHECK(distance(dweight, dweights) < kClose);
}

}  // namespace rehearsal::cpu
