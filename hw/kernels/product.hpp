// A matrix product on the host, as passed to an implementation (our own, a BLAS).
#pragma once
#include <cstdint>

#include "base/kernels.hpp"

namespace rehearsal::kernels {

// Row major without padding: c[m,n] (+)= a[m,k] b[k,n]; b is stored as [n,k] if transposed_b, a as [k,m] if
// transposed_a.
struct Product {
  std::int64_t m, n, k;
  const float* a;
  const float* b;
  float* c;
  bool transposed_a = false, transposed_b = false, accumulate = false;
};
// The product of a linear layer; the caller fills in the operands.
inline Product product_of(const Kernel& linear) {
  const Gemm shape = *gemm_of(linear);
  return {.m = shape.m,
          .n = shape.n,
          .k = shape.k,
          .a = {},
          .b = {},
          .c = {},
          .transposed_a = shape.weight_gradient,
          .transposed_b = traits(linear.kind).linear == LinearProduct::forward,
          .accumulate = shape.weight_gradient};
}
using ProductFunction = void (*)(const Product&);

}  // namespace rehearsal::kernels
