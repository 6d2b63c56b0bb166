// Matrix product after Goto and van de Geijn (ACM TOMS 34(3), 2008): both operands are packed into panels; blocks of
// them stay in the caches while a tile of C stays in registers.
//
// Each entry of C is a sum over k in order, in blocks of kDepth that are added to C one after another. Tiles and the
// other blocks only decide which entries are computed together, so all instruction sets give the same bytes.
#include <algorithm>
#include <memory>
#include <new>

#include "cpu/gemm.hpp"

namespace rehearsal::cpu {
namespace {

// A block of A, kDepth x kRows = 128 KiB, stays in L2 while it is multiplied with all panels of B; a panel of B, kDepth
// x 16 = 16 KiB, stays in L1 meanwhile; the block of B, kDepth x kColumns = 2 MiB, in L3.
constexpr std::int64_t kDepth = 256, kRows = 128, kColumns = 2048;

std::int64_t round_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

struct Freed {
  void operator()(float* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
using Panels = std::unique_ptr<float[], Freed>;
Panels panels(std::int64_t elements) {
  return Panels(
      static_cast<float*>(::operator new[](static_cast<std::size_t>(elements) * sizeof(float), std::align_val_t(64))));
}

// Copies the entries (i, p), i < lines, p < depth, of a matrix whose line i is a row (`by_line`: consecutive entries
// have consecutive p) or a column into panels of `width` lines, p by p: into[panel][p][line]. Missing lines become 0.
void pack(const float* from, std::int64_t stride, bool by_line, std::int64_t lines, std::int64_t depth,
          std::int64_t width, float* into) {
  for (std::int64_t first = 0; first < lines; first += width, into += width * depth) {
    const std::int64_t here = std::min(width, lines - first);
    if (here < width) std::fill(into, into + width * depth, 0.f);
    if (by_line) {
      for (std::int64_t i = 0; i < here; ++i) {
        const float* line = from + (first + i) * stride;
        for (std::int64_t p = 0; p < depth; ++p) into[p * width + i] = line[p];
      }
    } else {
      for (std::int64_t p = 0; p < depth; ++p) std::copy_n(from + p * stride + first, here, into + p * width);
    }
  }
}

// M rows times N vectors of C, in registers.
template <class V, int M, int N>
struct Tile {
  static constexpr std::int64_t kWidth = sizeof(V) / sizeof(float), kTileRows = M, kTileColumns = N * kWidth;

  // c[rows, columns] (+)= panel of A times panel of B.
  REHEARSAL_BODY static void multiply(std::int64_t depth, const float* a, const float* b, float* c, std::int64_t stride,
                                      std::int64_t rows, std::int64_t columns, bool add) {
    V sum[M][N] = {};
    for (std::int64_t p = 0; p < depth; ++p, a += M, b += kTileColumns) {
      V row[N];
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) load(row[j], b + j * kWidth);
#pragma GCC unroll 16
      for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) sum[i][j] += a[i] * row[j];
      }
    }
    if (rows == M && columns == kTileColumns) {
#pragma GCC unroll 16
      for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) {
          float* at = c + i * stride + j * kWidth;
          V old = {};
          if (add) load(old, at), sum[i][j] += old;
          store(at, sum[i][j]);
        }
      }
      return;
    }
    float edge[M][kTileColumns];
    std::memcpy(edge, sum, sizeof(edge));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        float& at = c[i * stride + j];
        at = add ? edge[i][j] + at : edge[i][j];
      }
  }
};

template <class T>
REHEARSAL_BODY void product(const GemmCall& call) {
  const std::int64_t m = call.m, n = call.n, k = call.k;
  const Panels a = panels(std::min(kDepth, k) * round_up(std::min(kRows, m), T::kTileRows));
  const Panels b = panels(std::min(kDepth, k) * round_up(std::min(kColumns, n), T::kTileColumns));
  for (std::int64_t jc = 0; jc < n; jc += kColumns) {
    const std::int64_t columns = std::min(kColumns, n - jc);
    for (std::int64_t pc = 0; pc < k; pc += kDepth) {
      const std::int64_t depth = std::min(kDepth, k - pc);
      const bool add = call.accumulate || pc > 0;
      pack(call.transposed_b ? call.b + jc * k + pc : call.b + pc * n + jc, call.transposed_b ? k : n,
           call.transposed_b, columns, depth, T::kTileColumns, b.get());
      for (std::int64_t ic = 0; ic < m; ic += kRows) {
        const std::int64_t rows = std::min(kRows, m - ic);
        pack(call.transposed_a ? call.a + pc * m + ic : call.a + ic * k + pc, call.transposed_a ? m : k,
             !call.transposed_a, rows, depth, T::kTileRows, a.get());
        for (std::int64_t j = 0; j < columns; j += T::kTileColumns)
          for (std::int64_t i = 0; i < rows; i += T::kTileRows)
            T::multiply(depth, a.get() + i * depth, b.get() + j * depth, call.c + (ic + i) * n + jc + j, n,
                        std::min(T::kTileRows, rows - i), std::min(T::kTileColumns, columns - j), add);
      }
    }
  }
}

// A tile fills the 16 registers of SSE and AVX, leaving some for a row of B, a product and an entry of A. (With AVX-512
// and separate instructions for products and sums it was no faster than with AVX2.)
void product_portable(const GemmCall& call) { product<Tile<Vector4, 4, 2>>(call); }
#if defined(__x86_64__)
REHEARSAL_AVX2 void product_avx2(const GemmCall& call) { product<Tile<Vector8, 6, 2>>(call); }
#endif

}  // namespace

void gemm(const GemmCall& call, InstructionSet set) {
  if (call.k == 0 && !call.accumulate) std::fill_n(call.c, call.m * call.n, 0.f);
#if defined(__x86_64__)
  if (set == InstructionSet::avx2) return product_avx2(call);
#else
  (void)set;
#endif
  product_portable(call);
}

void gemm(const GemmCall& call) { gemm(call, widest()); }

}  // namespace rehearsal::cpu
