// A matrix product on the host, as passed to an implementation (our own, a BLAS).
#pragma once
#include <cstdint>

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
using ProductFunction = void (*)(const Product&);

}  // namespace rehearsal::kernels
