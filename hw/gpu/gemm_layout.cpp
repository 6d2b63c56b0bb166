#include "gpu/gemm_layout.hpp"

#include "base/error.hpp"

namespace rehearsal::gpu {

BlasProduct blas_product(const Kernel& kernel) {
  INVARIANT(is_linear(kernel.kind), "a product of a linear layer");
  const auto [m, n, k, batch, precision, accumulate] = *gemm_of(kernel);
  // (first, second; result), row by row, with the transposes of kernels::Product.
  const auto stored = [](std::size_t operand, std::int64_t rows, std::int64_t columns, bool transposed) {
    return transposed ? StoredMatrix{operand, rows, columns, true} : StoredMatrix{operand, columns, rows, false};
  };
  const bool forward = traits(kernel.kind).linear == LinearProduct::forward;
  return {n, m, k, stored(1, k, n, forward), stored(0, m, k, accumulate), stored(2, m, n, false), accumulate};
}

}  // namespace rehearsal::gpu
