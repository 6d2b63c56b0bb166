// The three products of a linear layer as calls of a column-major BLAS: operand order and transposes.
//
// A row-major [r,c] matrix is, read column by column, its transpose: [c,r] with leading dimension c. So each product is
// asked for transposed, C^T = (A B)^T = B^T A^T, which swaps the operands and leaves all memory where it is.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/kernels.hpp"

namespace rehearsal::gpu {

// A column-major matrix as it lies in memory, with leading dimension = rows.
struct StoredMatrix {
  std::size_t operand = 0;  // index among the kernel's operands
  std::int64_t rows = 0, columns = 0;
  bool transposed = false;  // the product takes its transpose
};

// c[m,n] = a[m,k] b[k,n]; `accumulate`: c += a b.
struct BlasProduct {
  std::int64_t m = 0, n = 0, k = 0;
  StoredMatrix a, b, c;
  bool accumulate = false;
};

// Of a kernel for which is_linear() holds.
BlasProduct blas_product(const Kernel& kernel);

}  // namespace rehearsal::gpu
