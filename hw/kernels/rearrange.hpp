// Index maps for moving rows or columns: one of two buffers is accessed in order, the other one at Where::at(i). Runs
// of Where::run() elements stay contiguous. Shared by the kernels of the host and of a GPU.
#pragma once
#include <cstdint>
#include <numeric>

#include "kernels/cut.hpp"
#include "kernels/team.hpp"

namespace rehearsal::kernels {

// Columns first .. first + length of rows with `columns` columns.
struct SomeColumns {
  std::int64_t columns = 0, first = 0, length = 0;
  std::int64_t run() const { return std::gcd(length, std::gcd(columns, first)); }
  REHEARSAL_BOTH std::int64_t at(std::int64_t i) const {
    const std::int64_t row = i / length;
    return row * columns + first + i - row * length;
  }
};

// One block [rows, (n + 2 m) / parts] per part, with a share of each of the three runs of columns [n | m | m].
struct ColumnBlocks {
  std::int64_t rows = 0, parts = 1, n = 0, m = 0;
  std::int64_t run() const { return std::gcd(n / parts, m / parts); }
  REHEARSAL_BOTH std::int64_t at(std::int64_t i) const {
    const std::int64_t own_n = n / parts, own_m = m / parts, width = own_n + 2 * own_m;
    const std::int64_t line = i / width, part = line / rows, column = i - line * width;
    const std::int64_t row = (line - part * rows) * (n + 2 * m);
    if (column < own_n) return row + part * own_n + column;
    if (column < own_n + own_m) return row + n + part * own_m + column - own_n;
    return row + n + m + part * own_m + column - own_n - own_m;
  }
};

// One block [batch, rows, columns] per context rank, mapped to whole sequences.
struct RowBlocks {
  std::int64_t batch = 0, rows = 0, columns = 0;
  Cut cut;  // of any rank
  std::int64_t run() const { return columns; }
  REHEARSAL_BOTH std::int64_t at(std::int64_t i) const {
    const std::int64_t line = i / columns, sequence = line / rows, rank = sequence / batch;
    const std::int64_t position = cut.of(rank).position(line - sequence * rows, rows);
    return ((sequence - rank * batch) * cut.ranks * rows + position) * columns + i - line * columns;
  }
};

// to[i] = from[where(i)]
template <class Where, class From, class To>
struct GatherElements {
  static constexpr int kAtOnce = kWide<To>;
  Where where;
  const From* from;
  To* to;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    store<N>(to + i, load<N>(from + where.at(i)));
  }
};

// to[where(i)] = from[i]
template <class Where, class From, class To>
struct ScatterElements {
  static constexpr int kAtOnce = kWide<To>;
  Where where;
  const From* from;
  To* to;
  template <int N>
  REHEARSAL_DEVICE void at(std::int64_t i) const {
    store<N>(to + where.at(i), load<N>(from + i));
  }
};

}  // namespace rehearsal::kernels
