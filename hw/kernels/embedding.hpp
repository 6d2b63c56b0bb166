// Tables of tokens and of positions. The token table has rows first .. first + slice of the vocabulary; tokens of
// another rank's slice give rows of 0 and get no gradient. The gradient of a token adds its rows in batch order, with
// one thread per column: no atomics, so all replicas get the same bits.
#pragma once
#include <cstdint>

#include "kernels/cut.hpp"
#include "kernels/team.hpp"

namespace rehearsal::kernels {

template <class T>
struct Embed {
  static constexpr int kAtOnce = kWide<T>;
  const std::int32_t* tokens;
  const T* table;
  T* y;
  std::int64_t columns, first, slice;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t place = quotient(i, columns);
    const std::int64_t row = tokens[place] - first;
    const bool own = row >= 0 && row < slice;
    store<N>(y + i, own ? load<N>(table + row * columns + (i - place * columns)) : Floats<N>{});
  }
};

// dtable[token] += rows of dy. A block serves the batch positions block, block + blocks, ...; for a token that occurs
// several times, the block of its first position adds all rows. Each thread marks the matches among kEach tokens in a
// word of shared memory; then all threads walk over the words.
template <class T>
struct EmbedGradient {
  static constexpr int kThreads = 256, kEach = 32;
  static constexpr std::int64_t kChunk = kThreads * kEach;
  struct Shared {
    std::uint32_t equal[kThreads];
  };
  const std::int32_t* tokens;
  const T* dy;
  float* dtable;
  std::int64_t rows, columns, first, slice;

  template <class Team>
  REHEARSAL_DEVICE void operator()(Team& team) const {
    for (std::int64_t place = team.block(); place < rows; place += team.blocks()) {
      const std::int64_t row = tokens[place] - first;
      if (row < 0 || row >= slice) continue;
      bool taken = false;
      for (std::int64_t chunk = 0; chunk < rows && !taken; chunk += kChunk) taken = add(team, place, row, chunk);
    }
  }

 private:
  // Returns whether the token occurs at an earlier position; if not, adds the rows of the chunk.
  template <class Team>
  REHEARSAL_DEVICE bool add(Team& team, std::int64_t place, std::int64_t row, std::int64_t chunk) const {
    const std::int32_t token = tokens[place];
    Local<Team, std::int32_t> earlier(team);
    team.each([&](int thread) {
      const std::int64_t from = chunk + std::int64_t(thread) * kEach;
      std::uint32_t equal = 0;
      earlier(thread) = 0;
      for (int e = 0; e < kEach; ++e) {
        if (from + e >= rows || tokens[from + e] != token) continue;
        equal |= 1u << e;
        if (from + e < place) earlier(thread) = 1;
      }
      team.shared.equal[thread] = equal;
    });
    const bool taken = chunk <= place && team.largest(earlier) != 0;
    team.each([&](int thread) {
      if (taken) return;
      for (int word = 0; word < kThreads; ++word)
        for (std::uint32_t left = team.shared.equal[word]; left; left &= left - 1) {
          const std::int64_t other = chunk + word * kEach + lowest(left);
          for (std::int64_t j = thread; j < columns; j += kThreads)
            dtable[row * columns + j] += widened(dy[other * columns + j]);
        }
    });
    return taken;
  }
  REHEARSAL_DEVICE static int lowest(std::uint32_t bits) {
#if defined(__CUDACC__)
    return __ffs(int(bits)) - 1;
#else
    return std::countr_zero(bits);
#endif
  }
};

// One element of the position table over all sequences of the batch: dtable += dy[i], dy[i + rows x columns], ...
template <class T>
struct PositionsGradient {
  static constexpr int kAtOnce = kWide<T>;
  const T* dy;
  float* dtable;
  std::int64_t rows, columns, elements;  // rows, columns: per sequence; elements: of dy
  Cut cut;
  std::int64_t first;  // index of the first row of dy in the batch
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    const std::int64_t row = quotient(i, columns);
    float* to = dtable + cut.position((first + row) % rows, rows) * columns + (i - row * columns);
    Floats<N> sum = load<N>(to);
    for (std::int64_t j = i; j < elements; j += rows * columns) {
      const Floats<N> x = load<N>(dy + j);
      REHEARSAL_UNROLL
      for (int e = 0; e < N; ++e) sum[e] += x[e];
    }
    store<N>(to, sum);
  }
};

// The same where positions begin anew with each document, so that rows of one sequence may share an element of the
// table: one column of it, which takes all rows in their order.
template <class T>
struct PositionsOfDocuments {
  static constexpr int kAtOnce = kWide<T>;
  const T* dy;
  float* dtable;
  std::int64_t columns, all;  // all: rows of dy
  Numbered rows;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t column) const {
    for (std::int64_t row = 0; row < all; ++row) {
      float* to = dtable + rows.position(row) * columns + column;
      Floats<N> sum = load<N>(to);
      const Floats<N> x = load<N>(dy + row * columns + column);
      REHEARSAL_UNROLL
      for (int e = 0; e < N; ++e) sum[e] += x[e];
      store<N>(to, sum);
    }
  }
};

}  // namespace rehearsal::kernels
