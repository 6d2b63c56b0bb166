// Matrix tiles in shared memory and their products in registers, by a block of 16 x 16 threads. Thread t has row t / 16
// and column t % 16 of the square and holds the entries (row + 16 r, column + 16 c) of a product: each number that it
// reads from shared memory serves several sums, so arithmetic, not shared memory, is the bottleneck. fp32 on the
// ordinary cores, no tensor cores: exact enough for both precisions, and one source for both; tensor cores would be
// several times faster in bf16.
#pragma once
#include <cstdint>

#include "kernels/team.hpp"

namespace rehearsal::kernels {

inline constexpr int kSide = 16, kSquare = kSide * kSide;

// Rows are padded by 4 floats: eight threads that read 16 bytes of eight neighbouring rows then hit all 32 banks
// (columns are a multiple of 32).
template <int kRowCount, int kColumnCount>
struct alignas(16) Tile {
  static constexpr int kRows = kRowCount, kColumns = kColumnCount, kPitch = kColumns + 4;
  float at[kRows * kPitch];
  REHEARSAL_DEVICE float* row(int i) { return at + i * kPitch; }
  REHEARSAL_DEVICE const float* row(int i) const { return at + i * kPitch; }
};

// One thread's part of a product.
template <int kRows, int kColumns>
struct Sums {
  float v[kRows][kColumns];
  REHEARSAL_DEVICE void clear() {
    REHEARSAL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      REHEARSAL_UNROLL
      for (int c = 0; c < kColumns; ++c) v[r][c] = 0;
    }
  }
};

// Rows of T in memory, `pitch` apart; rows from `rows` on and columns from `depth` on read as 0.
template <class T>
struct Rows {
  const T* first;
  std::int64_t pitch, rows, depth;
  bool wide;
};

// One thread's part of filling a tile.
template <class T, class To>
REHEARSAL_DEVICE void fill(int thread, To& tile, const Rows<T>& from) {
  if (from.wide) {
    constexpr int kN = kWide<T>, kPerRow = To::kColumns / kN;
    for (int i = thread; i < To::kRows * kPerRow; i += kSquare) {
      const int row = i / kPerRow, column = i % kPerRow * kN;
      const bool inside = row < from.rows && column < from.depth;
      store<kN>(tile.row(row) + column, inside ? load<kN>(from.first + row * from.pitch + column) : Floats<kN>{});
    }
  } else {
    for (int i = thread; i < To::kRows * To::kColumns; i += kSquare) {
      const int row = i / To::kColumns, column = i % To::kColumns;
      const bool inside = row < from.rows && column < from.depth;
      tile.row(row)[column] = inside ? widened(from.first[row * from.pitch + column]) : 0;
    }
  }
}

// sums = a b^T: entry (row + 16 r, column + 16 c).
template <class A, class B>
REHEARSAL_DEVICE void rows_times_rows(int thread, const A& a, const B& b,
                                      Sums<A::kRows / kSide, B::kRows / kSide>& sums) {
  static_assert(A::kColumns == B::kColumns);
  constexpr int kR = A::kRows / kSide, kC = B::kRows / kSide;
  const float *from_a = a.row(thread / kSide), *from_b = b.row(thread % kSide);
  sums.clear();
#if defined(__CUDACC__)
#pragma unroll 2
#endif
  for (int k = 0; k < A::kColumns; k += 4) {
    Floats<4> x[kR], y[kC];
    REHEARSAL_UNROLL
    for (int r = 0; r < kR; ++r) x[r] = load<4>(from_a + r * kSide * A::kPitch + k);
    REHEARSAL_UNROLL
    for (int c = 0; c < kC; ++c) y[c] = load<4>(from_b + c * kSide * B::kPitch + k);
    REHEARSAL_UNROLL
    for (int e = 0; e < 4; ++e) {
      REHEARSAL_UNROLL
      for (int r = 0; r < kR; ++r) {
        REHEARSAL_UNROLL
        for (int c = 0; c < kC; ++c) sums.v[r][c] += x[r][e] * y[c][e];
      }
    }
  }
}

// The columns of a product with rows of kDepth entries are distributed to threads in runs of kRun, 16 runs side by
// side: entry c of a thread is column column_of<kDepth>(thread, c).
template <int kDepth>
inline constexpr int kRun = kDepth / kSide >= 4 ? 4 : kDepth / kSide;
template <int kDepth>
REHEARSAL_DEVICE int column_of(int thread, int c) {
  constexpr int kN = kRun<kDepth>;
  return c / kN * kN * kSide + thread % kSide * kN + c % kN;
}

// sums += a b: rows as above, columns distributed as above.
template <class A, class B>
REHEARSAL_DEVICE void add_rows_times(int thread, const A& a, const B& b,
                                     Sums<A::kRows / kSide, B::kColumns / kSide>& sums) {
  static_assert(A::kColumns == B::kRows);
  constexpr int kR = A::kRows / kSide, kN = kRun<B::kColumns>, kRuns = B::kColumns / kSide / kN;
  const float *from_a = a.row(thread / kSide), *from_b = b.row(0) + thread % kSide * kN;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (int k = 0; k < A::kColumns; k += 4) {
    Floats<4> x[kR];
    REHEARSAL_UNROLL
    for (int r = 0; r < kR; ++r) x[r] = load<4>(from_a + r * kSide * A::kPitch + k);
    REHEARSAL_UNROLL
    for (int e = 0; e < 4; ++e) {
      REHEARSAL_UNROLL
      for (int run = 0; run < kRuns; ++run) {
        const Floats<kN> y = load<kN>(from_b + (k + e) * B::kPitch + run * kN * kSide);
        REHEARSAL_UNROLL
        for (int r = 0; r < kR; ++r) {
          REHEARSAL_UNROLL
          for (int n = 0; n < kN; ++n) sums.v[r][run * kN + n] += x[r][e] * y[n];
        }
      }
    }
  }
}

// Writes rows of sums times factor[r] to memory (kAdd: adds to it): rows below `rows`, columns below `depth`.
template <int kDepth, bool kAdd = false, class T, int kR>
REHEARSAL_DEVICE void write(int thread, const Sums<kR, kDepth / kSide>& sums, const Floats<kR>& factor, T* to,
                            std::int64_t pitch, std::int64_t rows, std::int64_t depth, bool wide) {
  constexpr int kN = kRun<kDepth>;
  REHEARSAL_UNROLL
  for (int r = 0; r < kR; ++r) {
    const int row = thread / kSide + r * kSide;
    if (row >= rows) continue;
    REHEARSAL_UNROLL
    for (int c = 0; c < kDepth / kSide; c += kN) {
      const int column = column_of<kDepth>(thread, c);
      Floats<kN> x;
      REHEARSAL_UNROLL
      for (int n = 0; n < kN; ++n) x[n] = factor[r] * sums.v[r][c + n];
      T* at = to + row * pitch + column;
      if (wide) {
        if (column >= depth) continue;
        if constexpr (kAdd) {
          const Floats<kN> before = load<kN>(at);
          REHEARSAL_UNROLL
          for (int n = 0; n < kN; ++n) x[n] += before[n];
        }
        store<kN>(at, x);
      } else {
        REHEARSAL_UNROLL
        for (int n = 0; n < kN; ++n)
          if (column + n < depth) at[n] = stored<T>(kAdd ? widened(at[n]) + x[n] : x[n]);
      }
    }
  }
}

}  // namespace rehearsal::kernels
