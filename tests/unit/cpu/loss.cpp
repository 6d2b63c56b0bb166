#include <cstring>
#include <limits>

#include "oracle.hpp"
#include "run.hpp"

namespace rehearsal::cpu {
namespace {

struct Entropy {
  double loss = 0;
  Floats lse;
  std::vector<Floats> gradients;  // of each slice
};

// Cross-entropy of logits [T, vocabulary] cut into slices of `slice` columns, the rest padding: what each rank does,
// and the all-gather between.
Entropy sliced(std::int64_t T, std::int64_t vocabulary, std::int64_t ranks, std::int64_t slice, const Floats& logits,
               const std::vector<std::int32_t>& targets, std::int64_t total) {
  Entropy result;
  std::vector<Floats> slices(ranks, Floats(T * slice, 50));  // padding that would be noticed
  for (std::int64_t i = 0; i < T; ++i)
    for (std::int64_t j = 0; j < vocabulary; ++j) slices[j / slice][i * slice + j % slice] = logits[i * vocabulary + j];
  Floats parts(3 * T * ranks, NAN);
  const auto on = [&](std::int64_t rank) { return KernelContext{.tensor = rank, .batch = {.targets = targets}}; };
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    run(KernelKind::cross_entropy_local, {T, slice, vocabulary, ranks}, {&slices[rank], &parts}, on(rank));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    Floats lse(T, NAN), loss(2, 0);
    run(KernelKind::cross_entropy, {T, slice, vocabulary, ranks, total}, {&parts, &lse, &loss}, on(rank));
    double here = 0;
    std::memcpy(&here, loss.data(), sizeof(here));
    if (rank > 0) CHECK(here == 0);  // the first rank counts it
    result.loss += here;
    run(KernelKind::cross_entropy_gradient, {T, slice, vocabulary, total}, {&lse, &slices[rank]}, on(rank));
    result.lse = lse;
    result.gradients.push_back(slices[rank]);
  }
  return result;
}

}  // namespace

TEST_CASE("cross-entropy over any slices is the one over the whole vocabulary") {
  constexpr std::int64_t T = 6, vocabulary = 21, total = 24;
  const Floats logits = random(T * vocabulary, 1, 4);
  const std::vector<std::int32_t> targets{0, 20, 7, 13, 5, 6};
  Doubles lse;
  const double loss = oracle::cross_entropy(T, vocabulary, wide(logits), targets, total, &lse);
  const Doubles gradient =
      slopes([&](const Doubles& v) { return oracle::cross_entropy(T, vocabulary, v, targets, total); }, wide(logits));

  struct Cut {
    std::int64_t ranks, slice;
  };
  // Whole, without and with padding; in two, three of the last one padding; in four, the last one padding alone.
  for (const auto& [ranks, slice] : {Cut{1, 21}, Cut{1, 32}, Cut{2, 12}, Cut{4, 7}, Cut{4, 6}}) {
    CAPTURE(ranks);
    CAPTURE(slice);
    const Entropy found = sliced(T, vocabulary, ranks, slice, logits, targets, total);
    CHECK(found.loss == doctest::Approx(loss).epsilon(1e-7));
    CHECK(distance(found.lse, lse) < 1e-7);
    Floats whole(T * vocabulary);
    for (std::int64_t i = 0; i < T; ++i)
      for (std::int64_t j = 0; j < ranks * slice; ++j) {
        const float entry = found.gradients[j / slice][i * slice + j % slice];
        if (j < vocabulary)
          whole[i * vocabulary + j] = entry;
        else
          CHECK(entry == 0);
      }
    CHECK(distance(whole, gradient) < 2e-6);
  }
}

// Logits so large that their exponentials overflow: log(e^200 + e^199) = 200 + log(1 + 1/e).
TEST_CASE("cross-entropy does not overflow") {
  const Entropy found = sliced(1, 2, 2, 1, {200, 199}, {1}, 1);
  CHECK(found.loss == doctest::Approx(1 + std::log(1 + std::exp(-1.))).epsilon(1e-6));
}

TEST_CASE("a slice of padding alone says so") {
  Floats logits{1, 2}, parts(6, NAN);
  const std::vector<std::int32_t> targets{0};
  run(KernelKind::cross_entropy_local, {1, 2, 2, 2}, {&logits, &parts}, {.tensor = 1, .batch = {.targets = targets}});
  CHECK(parts[3] == -std::numeric_limits<float>::infinity());
  CHECK(parts[4] == 0);
  CHECK(parts[5] == 0);
  CHECK(std::isnan(parts[0]));  // the other rank's part is not touched
}

// Errors 1, -2, 3, 0: squares 14; rows of the global batch 4, width 2: loss 14 / (2 x 4 x 2), gradient error / 8.
TEST_CASE("squared error and its gradient") {
  Floats y{2, 0, 5, 1}, dy(4, NAN), loss(2, 0);
  const Floats target{1, 2, 2, 1};
  const KernelContext around{.batch = {.row_targets = target}};
  run(KernelKind::squared_error, {2, 2, 4}, {&y, &loss}, around);
  run(KernelKind::squared_error, {2, 2, 4}, {&y, &loss}, around);  // adds up
  double sum = 0;
  std::memcpy(&sum, loss.data(), sizeof(sum));
  CHECK(sum == 2 * 14. / 16);
  run(KernelKind::squared_error_gradient, {2, 2, 4}, {&y, &dy}, around);
  CHECK(dy == Floats{.125f, -.25f, .375f, 0});
}

}  // namespace rehearsal::cpu
