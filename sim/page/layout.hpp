// The pieces that text and CSV reports are laid out with.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::page {

// Of a report that people read in a terminal.
struct TextStyle {
  int width = 80;  // columns
  bool color = false;
};

// Emphasis, on terminals that show it.
struct Paint {
  bool color = false;
  std::string bold(std::string_view text) const;
  std::string dim(std::string_view text) const;
};

std::string grouped(std::uint64_t n);  // 1234567 -> "1,234,567"

// Columns that a terminal needs for it: UTF-8, without what colours it.
std::size_t columns(std::string_view text);

// Breaks at spaces so that no line exceeds `width` (words that do stay whole); later lines start with `indent`, which
// counts, and so do `used` columns before the first.
std::string wrap(std::string_view text, std::size_t width, std::string_view indent = "", std::size_t used = 0);

// A report whose lines all keep to `width`: what is broken goes on below the first word of its text, that is beyond a
// label ("  Memory       27 GiB ..."), a dash or the margin.
std::string fit(std::string_view text, int width);

// A heading with a list under it, set off by an empty line; nothing when the list is empty.
std::string notes(std::string_view heading, std::span<const std::string> entries, int width, const Paint& paint);

// Columns as wide as their widest cell, two spaces between; the first row is the heading. Columns of `words` stand to the
// left, numbers to the right. What is wider than `width` (0: any) is folded: words of the last column are wrapped, or stand
// below their row, and other columns that are left over follow in a table of their own, after those in front that are
// words.
std::string table(const std::vector<std::vector<std::string>>& rows, const Paint& paint, int width = 0,
                  std::vector<bool> words = {});

// One line of CSV: cells quoted where RFC 4180 asks for it, ended by a newline.
std::string csv_line(const std::vector<std::string>& cells);

}  // namespace rehearsal::page
