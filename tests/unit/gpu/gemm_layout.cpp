// Our calls of a column-major BLAS, executed by a naive one.
#include "gpu/gemm_layout.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

namespace rehearsal::gpu {
namespace {

// Small integers that differ between neighbours: sums are exact and a wrong index shows.
std::vector<double> numbers(std::int64_t size, int seed) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < size; ++i) all.push_back(double((i * 7 + i * i * 3 + seed * 5) % 23 - 11));
  return all;
}

// What BLAS does: entry (i, j) of a stored matrix lies at i + j * rows.
void product_of_a_column_major_blas(const BlasProduct& p, const std::array<std::vector<double>*, 3>& operands) {
  const auto entry = [&](const StoredMatrix& m, std::int64_t i, std::int64_t j) -> double& {
    if (m.transposed) std::swap(i, j);
    REQUIRE(i < m.rows);
    REQUIRE(j < m.columns);
    return operands[m.operand]->at(std::size_t(i + j * m.rows));
  };
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l) sum += entry(p.a, i, l) * entry(p.b, l, j);
      double& c = entry(p.c, i, j);
      c = p.accumulate ? c + sum : sum;
    }
}

}  // namespace

TEST_CASE("the three products of a linear layer, row by row as their definitions say") {
  for (const auto [t, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                               {3, 5, 7},
                               {7, 3, 5},
                               {5, 7, 3},
                               {16, 8, 24},
                               {1, 9, 4},
                               {13, 1, 6},
                               {6, 11, 1}}) {
    CAPTURE(t);
    CAPTURE(n);
    CAPTURE(k);
    auto x = numbers(t * k, 1), w = numbers(n * k, 2), y = numbers(t * n, 3);
    auto at = [](const std::vector<double>& m, std::int64_t columns, std::int64_t i, std::int64_t j) {
      return m.at(std::size_t(i * columns + j));  // row major
    };

    // y[T,n] = x[T,k] w[n,k]^T; what was in y does not matter.
    auto result = y;
    product_of_a_column_major_blas(blas_product({.kind = KernelKind::linear, .dims = {t, n, k}}), {&x, &w, &result});
    for (std::int64_t i = 0; i < t; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l) sum += at(x, k, i, l) * at(w, k, j, l);
        CHECK(at(result, n, i, j) == sum);
      }

    // dx[T,k] = dy[T,n] w[n,k]
    result = x;
    product_of_a_column_major_blas(blas_product({.kind = KernelKind::linear_input_gradient, .dims = {t, n, k}}),
                                   {&y, &w, &result});
    for (std::int64_t i = 0; i < t; ++i)
      for (std::int64_t l = 0; l < k; ++l) {
        double sum = 0;
        for (std::int64_t j = 0; j < n; ++j) sum += at(y, n, i, j) * at(w, k, j, l);
        CHECK(at(result, k, i, l) == sum);
      }

    // dw[n,k] += dy[T,n]^T x[T,k]
    result = w;
    product_of_a_column_major_blas(blas_product({.kind = KernelKind::linear_weight_gradient, .dims = {t, n, k}}),
                                   {&y, &x, &result});
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l) {
        double sum = at(w, k, j, l);
        for (std::int64_t i = 0; i < t; ++i) sum += at(y, n, i, j) * at(x, k, i, l);
        CHECK(at(result, k, j, l) == sum);
      }
  }
}

TEST_CASE("the forward product is the one that fp8 needs: first operand transposed, second as it lies") {
  const BlasProduct p = blas_product({.kind = KernelKind::linear, .dims = {32, 48, 64}});
  CHECK(p.a.transposed);
  CHECK_FALSE(p.b.transposed);
  CHECK_FALSE(p.accumulate);
}

TEST_CASE("only the three") {
  int linear = 0;
  for (std::size_t i = 0; i < kKernelKinds; ++i) linear += is_linear(static_cast<KernelKind>(i));
  CHECK(linear == 3);
}

}  // namespace rehearsal::gpu
