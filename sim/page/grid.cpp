#include "page/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "base/wide.hpp"
#include "page/layout.hpp"

namespace rehearsal::page {
namespace {

// Colours of the 256-colour palette: forwards blue, input gradients and full backwards green, weight gradients sand, as
// in the papers' figures. Two tints, by the parity of the label, separate neighbours; the other two are for lower
// case.
struct Kind {
  char letter;
  std::string_view name;
  std::array<int, 4> background;
};
constexpr std::array kKinds{Kind{'F', "forward", {69, 75, 147, 183}},
                            Kind{'I', "input gradient", {72, 79, 109, 152}},
                            Kind{'W', "weight gradient", {179, 186, 216, 223}},
                            Kind{'B', "backward (input and weight)", {71, 77, 108, 151}},
                            Kind{'S', "sends", {69, 75, 147, 183}},
                            Kind{'R', "receives", {72, 79, 109, 152}}};
constexpr std::array kOther{244, 247, 250, 253};

bool is_lower(char letter) { return letter >= 'a' && letter <= 'z'; }
char upper(char letter) { return is_lower(letter) ? static_cast<char>(letter - 'a' + 'A') : letter; }

int background(const GridSpan& span) {
  const std::size_t tint = (is_lower(span.kind) ? 2 : 0) + span.label % 2;
  for (const auto& k : kKinds)
    if (k.letter == upper(span.kind)) return k.background[tint];
  return kOther[tint];
}

constexpr std::uint32_t kIdle = UINT32_MAX;

// A time interval drawn on `columns` columns.
struct Window {
  std::int64_t start = 0, end = 0;
  int columns = 0;

  std::int64_t edge(int column) const {  // time at the left edge of a column; Wide: the product passes 2^63
    return start + std::int64_t(Wide(end - start) * column / columns);
  }
};

// The columns available for time, split into one window, or into two with a cut between them.
std::vector<Window> choose_windows(std::span<const GridSpan> spans, std::int64_t begin, std::int64_t end, int columns) {
  const std::int64_t whole = end - begin;
  std::int64_t unit = 0;  // greatest common divisor of all edges: a picture made of whole units
  std::vector<std::int64_t> lengths;
  for (const auto& s : spans) {
    unit = std::gcd(std::gcd(unit, s.start.count() - begin), s.end.count() - begin);
    if (s.end > s.start) lengths.push_back((s.end - s.start).count());
  }
  if (unit > 0 && whole / unit <= columns) {
    const int per_unit = std::min<int>(4, int(columns / (whole / unit)));
    return {{begin, end, int(whole / unit) * per_unit}};
  }
  std::nth_element(lengths.begin(), lengths.begin() + std::ptrdiff_t(lengths.size() / 2), lengths.end());
  const std::int64_t typical = lengths[lengths.size() / 2];
  // Readable if a typical action gets at least one column; otherwise the middle is cut out, and it gets two.
  if (whole <= std::int64_t(columns) * typical || columns < 24) return {{begin, end, columns}};
  const int left = (columns - 3) / 2, right = columns - 3 - left;
  const auto length = [&](int n) { return std::max<std::int64_t>(1, typical * n / 2); };
  return {{begin, begin + length(left), left}, {end - length(right), end, right}};
}

// For every column of the window, the span that covers most of it; `spans` are those of one row, in order of time.
std::vector<std::uint32_t> paint(const Window& window, std::span<const GridSpan> spans,
                                 std::span<const std::uint32_t> row) {
  std::vector<std::uint32_t> cells(window.columns, kIdle);
  std::size_t next = 0;
  for (int column = 0; column < window.columns; column++) {
    const std::int64_t left = window.edge(column), right = window.edge(column + 1);
    std::int64_t most = 0, covered = 0;
    while (next < row.size() && spans[row[next]].end.count() <= left) next++;
    for (std::size_t i = next; i < row.size() && spans[row[i]].start.count() < right; i++) {
      const auto& s = spans[row[i]];
      const std::int64_t share = std::min(right, s.end.count()) - std::max(left, s.start.count());
      covered += share;
      if (share > most) most = share, cells[column] = row[i];
    }
    if (right - left - covered > most) cells[column] = kIdle;
  }
  return cells;
}

// The text of a run of `length` columns: the micro-batch if it fits, preceded by the kind's letter if there is no
// colour.
std::string run_text(const GridSpan& span, std::size_t length, bool color) {
  const std::string digits = span.label == kNoLabel ? "" : std::to_string(span.label);
  std::string text = color ? "" : std::string(1, span.kind);
  if (text.size() + digits.size() <= length) text += digits;
  text.resize(length, color ? ' ' : '-');
  return text;
}

std::string row_text(const std::vector<std::uint32_t>& cells, std::span<const GridSpan> spans,
                     const GridOptions& options) {
  std::string text;
  for (std::size_t i = 0; i < cells.size();) {
    std::size_t end = i;
    while (end < cells.size() && cells[end] == cells[i]) end++;
    if (cells[i] == kIdle) {
      text.append(end - i, options.color ? ' ' : '.');
    } else {
      const auto& span = spans[cells[i]];
      const std::string run = run_text(span, end - i, options.color);
      text += options.color ? fmt::format("\x1b[38;5;16;48;5;{}m{}\x1b[0m", background(span), run) : run;
    }
    i = end;
  }
  return text;
}

// "0 s ... 33.000 ms" under each window, the times aligned with the edges that they name.
std::string axis(const std::vector<Window>& windows, std::size_t margin, std::int64_t begin) {
  std::string text(margin, ' ');
  for (const auto& w : windows) {
    if (&w != &windows.front()) text += "   ";
    const std::string from = w.start == begin ? "0" : show(Time(w.start - begin)), to = show(Time(w.end - begin));
    const std::size_t columns = std::size_t(w.columns);
    if (from.size() + to.size() + 1 <= columns)
      text += from + std::string(columns - from.size() - to.size(), ' ') + to;
    else
      text += std::string(columns > to.size() ? columns - to.size() : 0, ' ') + to;
  }
  return text + "\n";
}

std::string legend(std::span<const GridSpan> spans, std::size_t margin, bool cut, const GridOptions& options) {
  std::array<bool, 256> used{};
  bool lower = false;
  for (const auto& s : spans) used[static_cast<unsigned char>(upper(s.kind))] = true, lower |= is_lower(s.kind);
  std::vector<std::string> entries;
  for (const auto& k : kKinds) {
    if (!used[static_cast<unsigned char>(k.letter)]) continue;
    const auto tile = [&](int tint, char letter) {
      return fmt::format("\x1b[38;5;16;48;5;{}m {} \x1b[0m", k.background[std::size_t(tint)], letter);
    };
    entries.push_back(options.color ? tile(0, k.letter) + (lower ? tile(2, k.letter) : "") + " " + std::string(k.name)
                                    : fmt::format("{} {}", k.letter, k.name));
  }
  if (lower) entries.push_back((options.color ? "second tint: " : "lower case: ") + options.lower_case);
  if (!options.color) entries.push_back(". idle");
  if (cut) entries.push_back("~ left out");
  std::string text;
  std::size_t at = std::size_t(options.width);
  for (const auto& entry : entries) {
    const bool follows = at + 3 + columns(entry) <= std::size_t(options.width);
    if (!follows && !text.empty()) text += '\n';
    text += follows ? "   " : std::string(margin, ' ');
    text += entry;
    at = follows ? at + 3 + columns(entry) : margin + columns(entry);
  }
  return text + '\n';
}

}  // namespace

ElidedRows elided_rows(std::uint32_t rows, std::uint32_t max_rows) {
  if (rows <= max_rows || max_rows < 3) return {rows, 0, 0};
  const std::uint32_t shown = max_rows - 1, first = (shown + 1) / 2;
  return {first, shown - first, rows - shown};
}

std::string draw_grid(std::span<const GridSpan> spans, std::uint32_t rows, const GridOptions& options) {
  std::int64_t begin = INT64_MAX, end = INT64_MIN;
  std::vector<std::vector<std::uint32_t>> of_row(rows);
  for (std::uint32_t i = 0; i < spans.size(); i++) {
    const auto& s = spans[i];
    INVARIANT(s.row < rows, fmt::format("a span on row {} of {}", s.row, rows));
    begin = std::min(begin, s.start.count()), end = std::max(end, s.end.count());
    of_row[s.row].push_back(i);
  }
  if (end <= begin) return "";
  for (auto& row : of_row)
    std::sort(row.begin(), row.end(), [&](auto a, auto b) {
      return std::pair(spans[a].start, spans[a].end) < std::pair(spans[b].start, spans[b].end);
    });

  const ElidedRows fold = elided_rows(rows, options.max_rows);
  const auto name = [&](std::uint32_t r) { return options.row_name ? options.row_name(r) : fmt::format("rank {}", r); };
  const auto shown = [&](std::uint32_t r) { return r < fold.first || r >= rows - fold.last; };
  std::size_t margin = 0;
  for (std::uint32_t r = 0; r < rows; r++)
    if (shown(r)) margin = std::max(margin, name(r).size());
  margin += 2;
  const auto windows = choose_windows(spans, begin, end, std::max(8, options.width - int(margin)));

  std::string text;
  for (std::uint32_t r = 0; r < rows; r++) {
    if (!shown(r)) {
      text += fmt::format("{:{}}... {} more {} ...\n", "", margin, fold.hidden, options.rows_are);
      r += fold.hidden - 1;
      continue;
    }
    text += fmt::format("{:{}}", name(r), margin);
    for (const auto& w : windows) {
      if (&w != &windows.front()) text += " ~ ";
      text += row_text(paint(w, spans, of_row[r]), spans, options);
    }
    text += '\n';
  }
  return text + axis(windows, margin, begin) + legend(spans, margin, windows.size() > 1, options);
}

}  // namespace rehearsal::page
