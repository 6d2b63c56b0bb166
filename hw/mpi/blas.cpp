#include "mpi/blas.hpp"

#include <dlfcn.h>

namespace rehearsal::mpi {
namespace {

// The C interface of BLAS (cblas.h).
constexpr int kRowMajor = 101, kAsIs = 111, kTransposed = 112;
using Sgemm = void (*)(int order, int transposed_a, int transposed_b, int m, int n, int k, float alpha, const float* a,
                       int lda, const float* b, int ldb, float beta, float* c, int ldc);

Sgemm load() {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return nullptr;
  if (const auto limit = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"))) limit(1);
  return reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
}

Sgemm sgemm() {
  static const Sgemm loaded = load();  // GemmFunction is a plain pointer: nowhere else to keep it
  return loaded;
}

void openblas(const cpu::GemmCall& call) {
  const int m = static_cast<int>(call.m), n = static_cast<int>(call.n), k = static_cast<int>(call.k);
  sgemm()(kRowMajor, call.transposed_a ? kTransposed : kAsIs, call.transposed_b ? kTransposed : kAsIs, m, n, k, 1.f,
          call.a, call.transposed_a ? m : k, call.b, call.transposed_b ? k : n, call.accumulate ? 1.f : 0.f, call.c, n);
}

}  // namespace

Gemm fastest_gemm() {
  if (sgemm() == nullptr) return {};
  return {openblas, "OpenBLAS"};
}

}  // namespace rehearsal::mpi
