// Pages by hand: each block in each form.
#include "page/page.hpp"

#include <doctest/doctest.h>

#include <regex>

#include "base/error.hpp"

using namespace rehearsal;
using namespace rehearsal::page;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Widths of the rectangles of one colour.
std::vector<double> widths(const std::string& svg, Rgb color) {
  std::vector<double> all;
  const std::regex one("width=\"([0-9.]+)\" height=\"18\" fill=\"" + color.text() + "\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), one), end; it != end; ++it) all.push_back(std::stod((*it)[1]));
  return all;
}

Page example() {
  Page page;
  page.title = "A <page>", page.subtitle = "of two sections", page.made_by = "rehearse";
  page.sections.push_back({"First",
                           {{"", Facts{{{"iteration", {"2 s", 2., "/iteration_s"}, "of a clock", {{"3 times"}}}}}},
                            {"", Table{{"what", "how much"}, {{{"a & b"}, {"1.5", 1.5}}}}}}});
  Bars bars;
  bars.parts = {"x", "y"}, bars.rows = {{"one", {1, 2}, "1/3"}, {"two", {3, 0}, "all"}}, bars.limit = 3;
  page.sections.push_back({"Second", {{"Parts", bars, "parts"}, {"", Entries{{"first", "second"}}}}});
  return page;
}

}  // namespace

TEST_CASE("bars are as long as what they stand for, against the longest") {
  Bars bars;
  bars.parts = {"x", "y"}, bars.rows = {{"one", {1, 2}}, {"two", {4, 0}}};
  const auto svg = draw(bars, "");
  const auto x = widths(svg, series(0)), y = widths(svg, series(1));
  REQUIRE(x.size() == 2);
  REQUIRE(y.size() == 1);  // nothing is drawn for nothing
  CHECK(x[0] == doctest::Approx(150));
  CHECK(y[0] == doctest::Approx(300));
  CHECK(x[1] == doctest::Approx(600));
  bars.limit = 8, bars.limit_name = "most";
  CHECK(widths(draw(bars, ""), series(0))[1] == doctest::Approx(300));
  CHECK(contains(draw(bars, ""), "most 8"));
  bars.limit = 1000;  // off the scale: not drawn, and the other bars do not shrink
  CHECK(widths(draw(bars, ""), series(0))[1] == doctest::Approx(600));
  CHECK_FALSE(contains(draw(bars, ""), "most"));
}

TEST_CASE("more bars than a page holds are folded, and their number is said") {
  Bars bars;
  bars.parts = {"x"};
  for (int i = 0; i < 100; ++i) bars.rows.push_back({"row " + std::to_string(i), {1}});
  const auto svg = draw(bars, "");
  CHECK(contains(svg, "53 more"));
  CHECK(count(svg, "<title>row ") == kMostBars - 1);
  CHECK(table_of(bars).rows.size() == 100);
}

TEST_CASE("no name of a bar is cut: long ones have several lines, beside the bar or above it") {
  Bars bars;
  bars.parts = {"x"};
  bars.rows = {{"collectives of tensor groups in backward passes on rank 0, over links inside a node", {1}},
               {"collectives of tensor groups in backward passes on rank 0, over links between nodes", {2}}};
  for (const Length room : {kWide, kNarrow}) {
    const auto svg = draw(bars, "", room);
    CHECK_FALSE(contains(svg, "\xe2\x80\xa6"));
    CHECK(contains(svg, "inside a node</text>"));
    CHECK(contains(svg, "between nodes</text>"));
  }
  CHECK(contains(draw(bars, "", kNarrow), "width=\"380\""));
}

TEST_CASE("words are broken at spaces, and after a mark in a word that is too long") {
  CHECK(wrapped("one two three", px(10), px(60)) == std::vector<std::string>{"one two", "three"});
  CHECK(wrapped("cluster.links.bandwidth", px(10), px(90)) == std::vector<std::string>{"cluster.links.", "bandwidth"});
  CHECK(wrapped("", px(10), px(90)) == std::vector<std::string>{""});
}

// WCAG 2.2, 1.4.3: (lighter + 0.05) / (darker + 0.05) of the luminances, 4.5 at the least. The blue of forwards has a
// luminance of 0.199: 4.2 with white, 5.0 with black.
TEST_CASE("what is written on a colour can be read on it") {
  CHECK(Rgb{255, 255, 255}.luminance() == doctest::Approx(1));
  CHECK(Rgb{66, 122, 214}.luminance() == doctest::Approx(.199).epsilon(.01));
  CHECK(ink_on({66, 122, 214}) == "#000000");
  for (int red = 0; red < 256; red += 15)
    for (int green = 0; green < 256; green += 15)
      for (int blue = 0; blue < 256; blue += 15) {
        const Rgb color{red, green, blue};
        const double light = color.luminance() + .05;
        CHECK((ink_on(color) == "#ffffff" ? 1.05 / light : light / .05) >= 4.5);
      }
}

TEST_CASE("scales have two marks at least, however close the points are") {
  Scatter scatter;
  scatter.x = {"x", Unit::bytes}, scatter.y = {"y", Unit::seconds, true};
  scatter.points = {{1e9, 6.1}, {2e9, 6.5}};  // no 1, 2 or 5 times a power of ten between these
  CHECK(count(draw(scatter, ""), "text-anchor=\"end\"") >= 2);
}

TEST_CASE("points lie where their scales say") {
  Scatter scatter;
  scatter.x = {"x", Unit::none, true}, scatter.y = {"y", Unit::none, true};
  scatter.points = {{1, 1}, {10, 10}, {100, 100}};
  const auto svg = draw(scatter, "");
  const std::regex circle("<circle cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"");
  std::vector<double> x, y;
  for (std::sregex_iterator it(svg.begin(), svg.end(), circle), end; it != end; ++it)
    x.push_back(std::stod((*it)[1])), y.push_back(std::stod((*it)[2]));
  REQUIRE(x.size() == 3);
  CHECK(x[1] - x[0] == doctest::Approx(x[2] - x[1]).epsilon(1e-4));  // a decade is as long as the next
  CHECK(y[0] - y[1] == doctest::Approx(y[1] - y[2]).epsilon(1e-4));
  CHECK(x[2] > x[0]);
  CHECK(y[2] < y[0]);
  scatter.points.push_back({0, 5});  // has no place on such a scale
  CHECK(count(draw(scatter, ""), "<circle") == 3);
}

TEST_CASE("a document holds every block, escaped, with its numbers and their places") {
  const auto text = html(example());
  CHECK(text.starts_with("<!doctype html>"));
  CHECK(contains(text, "<h1>A &lt;page&gt;</h1>"));
  CHECK(contains(
      text,
      "<data value=\"2.0\" data-json=\"/iteration_s\">2 s</data><span class=\"more\">3 times; of a clock</span>"));
  CHECK(contains(text, "a &amp; b"));
  CHECK(contains(text, "<a href=\"#second\">Second</a>"));
  CHECK(contains(text, "<section id=\"second\">"));
  CHECK(contains(text, "<li>second</li>"));
  CHECK(count(text, "<svg ") == 2);  // for a wide page, and for a narrow one
  CHECK(contains(text, "<summary>as a table</summary>"));
  // Nothing comes from elsewhere.
  const std::regex elsewhere("(src=|href=\"http|url\\(|@import)");
  CHECK_FALSE(std::regex_search(text, elsewhere));
}

TEST_CASE("few rows of many columns stand upright in a document") {
  Table table{{"variant"}, {{{"a"}}, {{"b"}}}, {true}};
  for (int c = 0; c < 13; ++c) {
    table.head.push_back("figure " + std::to_string(c));
    for (auto& row : table.rows) row.push_back({row[0].text + std::to_string(c)});
  }
  Page page;
  page.sections.push_back({"All", {{"", table}}});
  CHECK(contains(html(page), "<th class=\"words\">variant</th><th>a</th><th>b</th></tr>"));
  CHECK(contains(html(page), "<tr><td class=\"words\">figure 12</td><td>a12</td><td>b12</td></tr>"));
}

TEST_CASE("the same page in a terminal and as a picture") {
  const auto words = text(example(), {60, false});
  CHECK(contains(words, "A <page>\nof two sections\n\n  iteration    2 s, 3 times     of a clock\n\nwhat"));
  CHECK(contains(words, "what   how much\na & b       1.5\n"));
  // A third and all of 16 columns.
  CHECK(contains(words,
                 "\nParts\n  one                       1      1/3  #####\n"
                 "  two                       3      all  ################\n"));
  CHECK(contains(words, "  - first\n"));
  auto page = example();
  CHECK(svg(page) == draw(std::get<Bars>(page.sections[1].blocks[0].content), "Parts"));
  CHECK(svg(page, "parts") == svg(page));
  CHECK_THROWS_AS(svg(page, "part"), UserError);
  Scatter scatter;
  scatter.points = {{1, 2}};
  page.sections[0].blocks.push_back({"Points", scatter, "points"});
  const auto both = svg(page);
  CHECK(count(both, "<svg ") == 3);
  CHECK(contains(both, ">Points<"));
  CHECK(contains(both, ">Parts<"));
}

TEST_CASE("a timeline keeps every box for its script, to the nanosecond, and draws one path a row and colour") {
  Drawing drawing;
  drawing.rows = 2;
  drawing.words = {"forward #", "send #"};
  const auto box = [](std::uint32_t row, double from, double to, std::uint32_t what, std::uint32_t after) {
    SvgBox b;
    b.row = row, b.start = seconds(from * 1e-3), b.end = seconds(to * 1e-3), b.label = "7", b.what = what,
    b.after = after;
    return b;
  };
  drawing.boxes = {box(0, 0, 2, 0, kNoBox), box(0, 2, 3, 0, 0), box(1, 3.5, 5, 1, 1)};
  drawing.boxes[2].critical = true;
  Page page;
  page.sections.push_back({"Work", {{"Who", Timeline{drawing}, "timeline"}}});
  const auto text = html(page);
  CHECK(contains(text, "\"b\":[0,2000000,0,0,0,0,1000000,0,0,1]"));
  CHECK(contains(text, "\"b\":[3500000,1500000,1,0,1]"));
  CHECK(contains(text, "\"words\":[\"forward #\",\"send #\","));
  CHECK(count(text, "<path fill=") == 2);
  CHECK(contains(text, "M0 0h4000000v20h-4000000zM4000000 0h2000000v20h-2000000z"));
  CHECK(contains(text, "<path class=\"path\""));
}
