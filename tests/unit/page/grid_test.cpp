#include "page/grid.hpp"

#include <doctest/doctest.h>

#include <sstream>

using namespace rehearsal;
using page::GridSpan;

namespace {

GridSpan span(std::uint32_t row, std::int64_t start, std::int64_t end, char kind, std::uint32_t label) {
  return {row, picoseconds(start), picoseconds(end), kind, label};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

std::vector<std::string> draw(const std::vector<GridSpan>& spans, std::uint32_t rows, int width) {
  page::GridOptions options;
  options.width = width;
  return lines(draw_grid(spans, rows, options));
}

}  // namespace

TEST_CASE("equal actions get equal, whole columns") {
  // Unit 10 (the gcd of all edges), 5 units, 24 - 8 = 16 columns: 3 columns a unit, 15 in all.
  const auto text = draw({span(0, 0, 10, 'F', 0), span(0, 30, 50, 'B', 0), span(1, 10, 30, 'F', 7)}, 2, 24);
  REQUIRE(text.size() == 6);
  CHECK(text[0] == "rank 0  F0-......B0----");
  CHECK(text[1] == "rank 1  ...F7----......");
  CHECK(text[2] == "        0      0.050 ns");  // 50 ps; the axis ends where the columns end
  CHECK(text[3] == "        F forward");        // the legend keeps to the width, entry by entry
  CHECK(text[4] == "        B backward (input and weight)");
  CHECK(text[5] == "        . idle");
}

TEST_CASE("a column shows what covers most of it") {
  // 0, 30, 61, 97 share no divisor, so 16 columns share 97: their edges are 0 6 12 18 24 30 36 42 48 54 60 66 72
  // ... 97. F has columns 0 to 4; column 10 (60 to 66) is 1 of idleness and 5 of B.
  const auto text = draw({span(0, 0, 30, 'F', 1), span(0, 61, 97, 'B', 1)}, 1, 24);
  CHECK(text[0] == "rank 0  F1---.....B1----");
}

TEST_CASE("labels that do not fit are left out") {
  // One unit = one column (16 units, 16 columns): the letter alone; two columns hold a letter and one digit.
  const auto text = draw({span(0, 0, 1, 'F', 3), span(0, 1, 3, 'F', 4), span(0, 3, 5, 'F', 12), span(0, 5, 8, 'W', 12),
                          span(0, 15, 16, 'f', 5)},
                         1, 24);
  CHECK(text[0] == "rank 0  FF4F-W12.......f");
}

TEST_CASE("a long picture shows its beginning and its end") {
  // 1,000 actions of 10 on 72 columns: less than a column each. Cut: 34 columns, " ~ ", 35 columns, two columns an
  // action; the end of the window is the end of the picture.
  std::vector<GridSpan> spans;
  for (int k = 0; k < 1000; k++)
    spans.push_back(span(0, 10 * k, 10 * (k + 1), k < 500 ? 'F' : 'B', std::uint32_t(k % 10)));
  const auto text = draw(spans, 1, 80);
  CHECK(text[0].size() == 80);
  CHECK(text[0].starts_with("rank 0  F0F1F2F3F4"));
  CHECK(text[0].find("F6 ~ ") == 40);
  CHECK(text[0].ends_with("B7B8B9"));
  CHECK(text[2].ends_with("~ left out"));
}

TEST_CASE("many ranks are folded") {
  // 100 rows into 32 lines: 31 ranks and a line for the 69 others, 16 at the top and 15 at the bottom.
  const auto fold = page::elided_rows(100, 32);
  CHECK(fold.first == 16);
  CHECK(fold.last == 15);
  CHECK(fold.hidden == 69);
  CHECK(page::elided_rows(32, 32).hidden == 0);

  std::vector<GridSpan> spans;
  for (std::uint32_t r = 0; r < 100; r++) spans.push_back(span(r, 0, 10, 'F', r % 10));
  const auto text = draw(spans, 100, 80);
  REQUIRE(text.size() == 34);
  CHECK(text[15].starts_with("rank 15 "));
  CHECK(text[16] == "         ... 69 more ranks ...");
  CHECK(text[17].starts_with("rank 85 "));
  CHECK(text[31].starts_with("rank 99 "));
}

TEST_CASE("no line is wider than asked, whatever the numbers") {
  for (const int width : {20, 40, 80, 161})
    for (const std::int64_t length : {1, 3, 7, 997, 123457}) {
      std::vector<GridSpan> spans;
      for (std::uint32_t r = 0; r < 5; r++)
        for (std::uint32_t k = 0; k < 40; k++)
          spans.push_back(span(r, length * (r + 2 * k), length * (r + 2 * k) + length, 'F', k));
      const auto text = draw(spans, 5, width);
      for (std::size_t r = 0; r < 5; r++) CHECK(text[r].size() <= std::size_t(width));
    }
}

TEST_CASE("colour changes the paint, not the columns") {
  const std::vector<GridSpan> spans{span(0, 0, 10, 'F', 0), span(0, 10, 20, 'b', 12)};
  page::GridOptions options;
  options.width = 80;
  options.color = true;
  std::string row = lines(draw_grid(spans, 1, options))[0], bare;
  for (std::size_t i = 0; i < row.size(); i++) {
    if (row[i] == '\x1b')
      i = row.find('m', i);
    else
      bare += row[i];
  }
  CHECK(bare == "rank 0  0   12  ");  // 2 units, at most 4 columns each
  CHECK(row.find("\x1b[0m") != std::string::npos);
}

TEST_CASE("nothing to draw") {
  CHECK(draw({}, 3, 80).empty());
  CHECK(draw({span(0, 5, 5, 'F', 0)}, 1, 80).empty());
}
