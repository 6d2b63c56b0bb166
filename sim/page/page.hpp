// Reports are pages of blocks, which are rendered in several forms. A report defines the content; only this folder
// knows how it looks as text, as pictures and as a document.
//
// A value holds the displayed text and, if the JSON of the same command has the number, the number and its position
// there, so that a page can be checked against the JSON.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
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
  bool strong = false;
};

struct Paragraph {
  std::string text;
};
struct Entries {  // a list of sentences
  std::vector<std::string> entries;
};
// Headline figures: name, value and a short note. `beside`: further values and words that end the same sentence, each
// after a comma unless it begins with another sign or a space.
struct Fact {
  std::string name;
  Value value;
  std::string more = {};
  std::vector<Value> beside = {};
};
struct Facts {
  std::vector<Fact> facts;
};
// A fact's value and those beside it, each as `shown`.
std::string sentence(const Fact& fact, const std::function<std::string(const Value&)>& shown);

struct Table {
  std::vector<std::string> head;  // all empty: text has no line for it
  std::vector<std::vector<Value>> rows;
  std::vector<bool> words = {true};  // left-aligned columns of words; beyond its end: numbers
};
// Columns as wide as their widest cell, two spaces apart; folded if wider than `width` (0: any), as table() of
// layout.hpp does.
std::string text(const Table& table, const Paint& paint, int width = 0);
// Leaves out rows in the middle, for which one of dots stands, where there are more than `most`.
void elide(Table& table, std::uint32_t most);

// error: predicted / measured - 1; rate: bytes a second; ratio: near 1, to four places.
enum class Unit : std::uint8_t { none, seconds, bytes, share, change, error, money, rate, ratio };
// "1.2 s", "79.1 GiB", "38.2 %", "+1.25 %", "-4.1 %", "1,200", "50 GB/s".
std::string show_amount(double amount, Unit unit);

// Stacked bars, one per row; beyond kMostBars rows the middle is left out, by the drawing or by who fills it.
inline constexpr std::uint32_t kMostBars = 48;
struct Bars {
  struct Row {
    std::string name;
    std::vector<double> values;  // one per part, none negative
    std::string more = {};       // printed after the bar's total
  };
  std::vector<std::string> parts = {};
  std::vector<Rgb> colors = {};  // by part; empty: series()
  std::vector<Row> rows = {};
  std::uint32_t left_out = 0;  // further rows in the middle: `rows` are the first and the last ones
  Unit unit = Unit::none;
  std::optional<double> limit = {};  // a line across all bars, in `unit`
  std::string limit_name = {};
  std::string json = {};  // pattern of the values' JSON pointers, with {row} (its place), {name} and {part}
};

// A scatter plot of two amounts.
struct Scatter {
  struct Point {
    double x = 0, y = 0;
    std::size_t series = 0;
    std::string tip = {};
    bool marked = false;  // drawn large, and labelled if `label` is not empty
    std::string label = {};
  };
  struct Scale {
    std::string title;
    Unit unit = Unit::none;
    bool logarithmic = false;
    bool whole = false;  // the numbers are counts
  };
  Scale x, y;
  std::vector<std::string> series;  // names; without legend if there are more than a few
  std::vector<Point> points;
  std::vector<double> slopes = {};                       // lines y = slope x; the first is solid, others are dashed
  std::vector<std::pair<double, double>> frontier = {};  // connected by steps: the Pareto front
  std::vector<std::pair<double, double>> curve = {};     // connected directly, such as a roofline
};

// Activity over time, zoomable. Its static form is that of draw_svg.
struct Timeline {
  Drawing drawing;
};

// A picture drawn elsewhere with a Canvas: a whole SVG document, and one for a narrow page. Without that it is
// scrolled.
struct Picture {
  std::string svg, narrow = {};
};
// Unformatted text, for copying.
struct Verbatim {
  std::string text;
};

struct Block {
  std::string title;  // may be empty
  std::variant<Paragraph, Entries, Facts, Table, Bars, Scatter, Timeline, Picture, Verbatim> content;
  std::string name = {};  // for --svg and --picture, of drawings, and of texts that say why one is missing
  std::string note = {};  // below it
  bool folded = false;    // collapsed in a document
};
bool is_drawing(const Block& block);

struct Section {
  std::string title;
  std::vector<Block> blocks;
};

struct Page {
  std::string title, subtitle;
  std::vector<Section> sections;
  std::string made_by;     // "rehearse 0.1.0"
  std::string trace = {};  // a Chrome trace in JSON, for a button that opens it in ui.perfetto.dev; empty: none
};

// In a terminal: titles of blocks are headings, those of sections are not shown, nor are drawings but bars, of their
// first part against `limit`.
std::string text(const Page& page, const TextStyle& style);

// One document: no network, opens from disk, light and dark. Drawings come with their numbers as tables.
std::string html(const Page& page);

// All drawings, one below the other, or the one of this name. Throws UserError, which lists the existing names, if
// there is none.
std::string svg(const Page& page, const std::string& name = {});

// --- the drawings, each a whole SVG document ------------------------------------------------------------------------
std::string draw(const Bars& bars, const std::string& title, Length room = kWide);
std::string draw(const Scatter& scatter, const std::string& title, Length room = kWide);
// The numbers of these drawings.
Table table_of(const Bars& bars);
Table table_of(const Scatter& scatter);

// Colours of series that are distinguishable with colour blindness: after Okabe and Ito, "Color Universal Design"
// (2008).
Rgb series(std::size_t n);

}  // namespace rehearsal::page
