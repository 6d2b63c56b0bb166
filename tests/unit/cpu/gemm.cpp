#include "cpu/gemm.hpp"

#include <cstring>

#include "oracle.hpp"
#include "run.hpp"

namespace rehearsal::cpu {
namespace {

struct Sizes {
  std::int64_t m, n, k;
};
// Below, at and above a tile (4 x 8, 6 x 16), and across the blocks of rows (128), depth (256) and columns (2048).
constexpr Sizes kSizes[] = {{1, 1, 1},    {3, 5, 2},     {4, 8, 7},     {6, 16, 16},    {7, 17, 33},
                            {13, 31, 64}, {129, 40, 20}, {20, 40, 257}, {133, 50, 300}, {9, 2055, 12}};

// |error| <= k ulp/2 per product and sum; 1e-6 relative to the largest entry holds for k up to 300 with entries that
// are normal: rounding errors add up like a random walk, sqrt(300) 6e-8 = 1e-6.
constexpr double kClose = 1e-6;

}  // namespace

TEST_CASE("gemm equals the definition in all three forms") {
  for (const auto& [m, n, k] : kSizes)
    for (const bool turn_a : {false, true})
      for (const bool turn_b : {false, true}) {
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        CAPTURE(turn_a);
        CAPTURE(turn_b);
        const Floats a = random(m * k, 1), b = random(k * n, 2);
        Floats c(m * n, NAN);  // what was there does not matter
        gemm({m, n, k, a.data(), b.data(), c.data(), turn_a, turn_b, false});
        const Doubles expected = oracle::product(m, n, k, wide(a), turn_a, wide(b), turn_b);
        CHECK(distance(c, expected) < kClose);
      }
}

TEST_CASE("gemm adds to what is there when it accumulates") {
  for (const auto& [m, n, k] : kSizes) {
    const Floats a = random(m * k, 1), b = random(k * n, 2), before = random(m * n, 3);
    Floats c = before;
    gemm({m, n, k, a.data(), b.data(), c.data(), true, false, true});
    Doubles expected = oracle::product(m, n, k, wide(a), true, wide(b), false);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += double(before[i]);
    CHECK(distance(c, expected) < kClose);
  }
}

TEST_CASE("every instruction set gives the same bytes") {
  if (widest() == InstructionSet::portable) {
    MESSAGE("skipped: this machine has only one instruction set");
    return;
  }
  for (const auto& [m, n, k] : kSizes)
    for (const bool accumulate : {false, true}) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(k);
      const Floats a = random(m * k, 1), b = random(k * n, 2);
      Floats portable(m * n, .5f), best = portable;
      gemm({m, n, k, a.data(), b.data(), portable.data(), false, true, accumulate}, InstructionSet::portable);
      gemm({m, n, k, a.data(), b.data(), best.data(), false, true, accumulate}, widest());
      CHECK(std::memcmp(portable.data(), best.data(), portable.size() * sizeof(float)) == 0);
    }
}

// T = 3 rows, n = 2 outputs, k = 2 inputs, by hand. x = [1 2; 3 4; 5 6], w = [1 -1; 2 1], so
// y = x w^T = [-1 4; -1 10; -1 16]. With dy = y:  dx = dy w = [7 5; 19 11; 31 17],
// dw = 1 + dy^T x = [1-9 1-12; 1+114 1+144].
TEST_CASE("the three kernels of a linear layer name their operands as the table does") {
  Floats x{1, 2, 3, 4, 5, 6}, w{1, -1, 2, 1}, y(6, NAN), dx(6, NAN), dw(4, 1);
  run(KernelKind::linear, {3, 2, 2}, {&x, &w, &y});
  CHECK(y == Floats{-1, 4, -1, 10, -1, 16});
  run(KernelKind::linear_input_gradient, {3, 2, 2}, {&y, &w, &dx});
  CHECK(dx == Floats{7, 5, 19, 11, 31, 17});
  run(KernelKind::linear_weight_gradient, {3, 2, 2}, {&y, &x, &dw});
  CHECK(dw == Floats{-8, -11, 115, 145});
}

}  // namespace rehearsal::cpu
