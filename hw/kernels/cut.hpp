// How a sequence is split over the ranks of a context group: the position of each row, and the rows that a query sees.
// Shared by position tables, rotary embedding, attention and the synthetic data.
//
// Of c ranks rank i has the i-th of c equal runs of positions; balanced, it has runs i and 2c - 1 - i of 2c, so that
// all have equal work under a causal mask (Llama 3, arXiv 2407.21783, section 3.3.2). Positions ascend with rows in
// both cases.
#pragma once
#include <cstdint>

#include "kernels/device.hpp"

namespace rehearsal::kernels {

struct Cut {
  std::int64_t ranks = 1, index = 0;
  bool balanced = false;

  REHEARSAL_BOTH Cut of(std::int64_t rank) const { return {ranks, rank, balanced}; }

  // Position of the i-th of `rows` rows that a rank holds of a sequence; balanced needs an even number of rows.
  REHEARSAL_BOTH std::int64_t position(std::int64_t i, std::int64_t rows) const {
    if (!balanced) return index * rows + i;
    const std::int64_t run = rows / 2;
    return i < run ? index * run + i : (2 * ranks - 1 - index) * run + i - run;
  }
  // Number of its rows at positions up to this one.
  REHEARSAL_BOTH std::int64_t up_to(std::int64_t position, std::int64_t rows) const {
    if (!balanced) return within(position + 1 - index * rows, rows);
    const std::int64_t run = rows / 2;
    return within(position + 1 - index * run, run) + within(position + 1 - (2 * ranks - 1 - index) * run, run);
  }

 private:
  REHEARSAL_BOTH static std::int64_t within(std::int64_t n, std::int64_t most) {
    return n < 0 ? 0 : n < most ? n : most;
  }
};

// By the dims of kernels: c = 0 means that sequences are not split.
constexpr std::int64_t ranks_of_cut(std::int64_t c) { return c > 0 ? c : 1; }
constexpr Cut cut_of(std::int64_t c, std::int64_t balanced, std::int64_t index) {
  return {ranks_of_cut(c), c > 0 ? index : 0, balanced != 0};
}

// The first of the `own` rows of a tensor rank, when tensor ranks have different rows (ranks > 0).
constexpr std::int64_t first_of_rows(std::int64_t ranks, std::int64_t own, std::int64_t tensor) {
  return ranks > 0 ? tensor * own : 0;
}

// Which row of a table of positions each row of a rank reads: it holds `positions` of each sequence, in the order of
// its cut, and of those the rows from `first` on. With documents (where they begin, by position of whole sequences;
// else null) positions begin anew with each.
struct Numbered {
  std::int64_t positions = 1;
  Cut cut{};
  std::int64_t first = 0;
  const std::int32_t* documents = nullptr;

  REHEARSAL_BOTH std::int64_t position(std::int64_t row) const {
    const std::int64_t at = first + row, sequence = at / positions;
    const std::int64_t whole = cut.position(at - sequence * positions, positions);
    return documents ? whole - documents[sequence * positions * cut.ranks + whole] : whole;
  }
};

}  // namespace rehearsal::kernels
