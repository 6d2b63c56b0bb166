// What reports are made of: a page of blocks, and its forms. A report says what there is to see; how that looks as
// text, as a picture and as a document is known here alone (sim/design/pages.md).
//
// A value carries what people read and, where the JSON of the same command has the number, the number and its place
// there, so that a page can be held against it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "page/canvas.hpp"
#include "page/layout.hpp"
#include "page/svg.hpp"

namespace rehearsal::page {

struct Value {
  std::string text;
  std::optional<double> number = {};
  std::string json = {};  // JSON pointer (RFC 6901): "/ranks/0/busy_s"; empty: the number is derived
};

struct Paragraph {
  std::string text;
};
struct Entries {  // a list, an entry a sentence
  std::vector<std::string> entries;
};
// Headline figures: what, how much, and a word on it.
struct Fact {
  std::string name;
  Value value;
  std::string more = {};
};
struct Facts {
  std::vector<Fact> facts;
};
struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<Value>> rows;
  std::vector<bool> words = {true};  // columns of words, which stand to the left; beyond its end: numbers
};
// Columns as wide as their widest cell, two spaces between; folded where it is wider than `width` (0: any), as by
// table() of layout.hpp.
std::string text(const Table& table, const Paint& paint, int width = 0);

enum class Unit : std::uint8_t { none, seconds, bytes, share, money };
std::string show_amount(double amount, Unit unit);  // "1.2 s", "79.1 GiB", "38.2 %", "1,200"

// Stacked bars, a row each; more rows than kMostBars are folded.
inline constexpr std::uint32_t kMostBars = 48;
struct Bars {
  struct Row {
    std::string name;
    std::vector<double> values;  // one per part, none negative
    std::string more = {};       // behind the bar's total
  };
  std::vector<std::string> parts;
  std::vector<Rgb> colors = {};  // of the parts; empty: series()
  std::vector<Row> rows;
  Unit unit = Unit::none;
  std::optional<double> limit = {};  // a line across all bars, in `unit`
  std::string limit_name = {};
  std::string json = {};  // pattern of the values' places in JSON, with {row} and {part}; of parts its own names
};

// Points of two amounts.
struct Scatter {
  struct Point {
    double x = 0, y = 0;
    std::size_t series = 0;
    std::string tip = {};
    bool marked = false;  // drawn large, and named where `label` is not empty
    std::string label = {};
  };
  struct Scale {
    std::string title;
    Unit unit = Unit::none;
    bool logarithmic = false;
    bool whole = false;  // of numbers that count something
  };
  Scale x, y;
  std::vector<std::string> series;  // names; more than a few have no legend
  std::vector<Point> points;
  std::vector<double> slopes = {};                       // lines y = slope x; the first is drawn through, others dashed
  std::vector<std::pair<double, double>> frontier = {};  // joined by steps: what is no worse than any
  std::vector<std::pair<double, double>> curve = {};     // joined as it is, such as a roof
};

// Who works when, to zoom into. Its static form is draw_svg's.
struct Timeline {
  Drawing drawing;
};

// A picture that somebody else draws with a Canvas: a whole SVG document.
struct Picture {
  std::string svg;
};
// Text as it is, to be copied.
struct Verbatim {
  std::string text;
};

struct Block {
  std::string title;  // may be empty
  std::variant<Paragraph, Entries, Facts, Table, Bars, Scatter, Timeline, Picture, Verbatim> content;
  std::string name = {};  // by which --picture asks for it; of drawings, and of what says why there is none
  std::string note = {};  // below it
  bool folded = false;    // a document shows it when asked
};
bool is_drawing(const Block& block);

struct Section {
  std::string title;
  std::vector<Block> blocks;
};

struct Page {
  std::string title, subtitle;
  std::vector<Section> sections;
  std::string made_by;  // "rehearse 0.1.0"
};

std::string text(const Page& page, const TextStyle& style);

// One document: no network, opens from disk, light and dark. Drawings have their numbers as tables.
std::string html(const Page& page);

// The drawings below each other, or the one of this name. Throws UserError where there is none; it names those there
// are.
std::string svg(const Page& page, const std::string& name = {});

// --- the drawings, each a whole SVG document ------------------------------------------------------------------------
std::string draw(const Bars& bars, const std::string& title);
std::string draw(const Scatter& scatter, const std::string& title);
// Their numbers.
Table table_of(const Bars& bars);
Table table_of(const Scatter& scatter);

// Colours of series, told apart by people who see few: after Okabe and Ito, "Color Universal Design" (2008).
Rgb series(std::size_t n);

}  // namespace rehearsal::page
