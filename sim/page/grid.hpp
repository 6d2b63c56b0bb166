// Draws activity over time for a terminal: one row per rank, time from left to right, one character per slice of time.
//
// A slice shows the span that covers most of it (or idleness). In short pictures every action gets whole columns, so
// that equal actions look equal; pictures too long for the line show the beginning and the end without the middle. Rows
// beyond `max_rows` are left out in the middle. The output is a pure function of the arguments.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::page {

inline constexpr std::uint32_t kNoLabel = 0xffffffff;

struct GridSpan {
  std::uint32_t row = 0;
  Time start, end;
  // F I W B and S R have colours and names of their own; other letters are grey. Lower case: the same kind in another
  // tint, to distinguish the chunks of a rank.
  char kind = 'F';
  std::uint32_t label = 0;  // micro-batch: printed if it fits, unless kNoLabel
};

struct GridOptions {
  int width = 80;  // columns of the whole picture, row names included
  bool color = false;
  std::uint32_t max_rows = 32;
  std::function<std::string(std::uint32_t row)> row_name;  // default "rank N"
  std::string rows_are = "ranks";                          // in "... 9 more ranks ..."
  std::string lower_case = "another chunk";                // lower-case kinds in the legend
};

// Rows 0..rows-1, each ended by a newline, then a line with the time axis and one with the legend of the kinds in use.
// Spans come in any order; spans of one row must not overlap. Empty text when there is nothing to draw.
std::string draw_grid(std::span<const GridSpan> spans, std::uint32_t rows, const GridOptions& options);

// The visible rows of a long table: all, or the first and last ones; `first` + `last` + one line for the rest.
struct ElidedRows {
  std::uint32_t first = 0, last = 0, hidden = 0;
};
ElidedRows elided_rows(std::uint32_t rows, std::uint32_t max_rows);

}  // namespace rehearsal::page
