// Building blocks of text and CSV reports.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::page {

// The style of a text report for a terminal.
struct TextStyle {
  int width = 80;  // columns
  bool color = false;
};

// Emphasis, if the terminal supports it.
struct Paint {
  bool color = false;
  std::string bold(std::string_view text) const;
  std::string dim(std::string_view text) const;
};

std::string grouped(std::uint64_t n);  // 1234567 -> "1,234,567"

// The width in a terminal: UTF-8 characters, without colour codes.
std::size_t columns(std::string_view text);

// Breaks at spaces so that no line exceeds `width` (longer words stay whole). Later lines start with `indent`, and the
// first line already has `used` columns; both count.
std::string wrap(std::string_view text, std::size_t width, std::string_view indent = "", std::size_t used = 0);

// A report with all lines broken to `width`: a broken line continues below the first word of its text, which follows a
// label ("  Memory       27 GiB ..."), a dash or the margin.
std::string fit(std::string_view text, int width);

// A heading with a list below it, preceded by an empty line; nothing if the list is empty.
std::string notes(std::string_view heading, std::span<const std::string> entries, int width, const Paint& paint);

// Columns as wide as their widest cell, two spaces apart; the first row is the heading (none, if all of it is empty).
// Columns of `words` are left-aligned, numbers right-aligned. A table wider than `width` (0: any) is folded: words in
// the last column are wrapped or moved below their row, and other columns that do not fit follow in a table of their
// own, after the leading columns of words.
std::string table(const std::vector<std::vector<std::string>>& rows, const Paint& paint, int width = 0,
                  std::vector<bool> words = {});

// One line of CSV: cells quoted as RFC 4180 requires, ended by a newline.
std::string csv_line(const std::vector<std::string>& cells);

}  // namespace rehearsal::page
