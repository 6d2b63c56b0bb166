// Stacked bars, one per row.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "page/drawn_time.hpp"
#include "page/grid.hpp"
#include "page/page.hpp"

namespace rehearsal::page {
namespace {

constexpr Length kFewestNames = px(80), kMostNames = px(340), kWideBars = px(600), kBar = px(18), kBetween = px(6);
constexpr Length kName = px(12), kNameLine = px(15), kTotal = px(11);  // font sizes; a line of a long name

double total(const Bars::Row& row) { return std::accumulate(row.values.begin(), row.values.end(), 0.); }

Rgb color_of_part(const Bars& bars, std::size_t part) {
  return part < bars.colors.size() ? bars.colors[part] : series(part);
}

ElidedRows fold_of(const Bars& bars) { return elided_rows(std::uint32_t(bars.rows.size()) + bars.left_out, kMostBars); }

std::string words_of(const Bars& bars, const Bars::Row& row) {
  return show_amount(total(row), bars.unit) + (row.more.empty() ? "" : " \xc2\xb7 " + row.more);
}

// On a wide page names are to the left of the bars, on a narrow one above them. What a bar comes to is beside it, never
// on it, nor on the line of the limit.
class BarsPicture {
 public:
  BarsPicture(const Bars& bars, const std::string& title, Length room)
      : bars_(bars), title_(title), narrow_(room <= kNarrow), margin_(narrow_ ? px(4) : kMargin) {
    most_ = 0;
    Length name = 0, words = 0;
    for (const auto& row : bars.rows) {
      most_ = std::max(most_, total(row));
      name = std::max(name, text_width(row.name, kName) + px(16));
      words = std::max(words, text_width(words_of(bars, row), kTotal) + px(8));
    }
    if (bars.limit && *bars.limit <= 4 * most_) most_ = std::max(most_, *bars.limit);  // else far outside the picture
    if (!(most_ > 0)) most_ = 1;
    left_ = margin_ + (narrow_ ? 0 : std::clamp(name, kFewestNames, kMostNames));
    width_ = narrow_ ? room : left_ + kWideBars + words + margin_;
    bars_width_ = narrow_ ? room - 2 * margin_ : kWideBars;
  }

  std::string draw() {
    Length y = narrow_ ? px(8) : kMargin;
    if (!title_.empty()) {
      y += px(10);
      paragraph(out_, margin_, y, width_ - 2 * margin_, title_, px(15), "font-weight=\"600\"");
      y += px(14);
    }
    if (bars_.parts.size() > 1) {
      std::vector<LegendEntry> entries;
      for (std::size_t p = 0; p < bars_.parts.size(); ++p)
        if (std::any_of(bars_.rows.begin(), bars_.rows.end(),
                        [&](const auto& row) { return p < row.values.size() && row.values[p] > 0; }))
          entries.push_back({color_of_part(bars_, p), bars_.parts[p]});
      legend(out_, left_, width_ - margin_, y += px(8), entries);
      y += px(12);
    }
    const bool limited = bars_.limit && *bars_.limit <= most_;
    if (limited) y += px(12);
    const Length top = y;
    const ElidedRows fold = fold_of(bars_);
    for (std::uint32_t r = 0; r < bars_.rows.size(); ++r) {
      if (fold.hidden && r == fold.first) {
        out_.label(left_, y + px(13), fmt::format("\xe2\x8b\xae {} more", fold.hidden),
                   fmt::format("font-size=\"11\" {}", kMuted));
        y += kBar + kBetween;
        r = std::uint32_t(bars_.rows.size()) - fold.last;
      }
      row(bars_.rows[r], y);
    }
    if (limited) limit(top);
    return svg_document(width_, y + px(10), title_, out_);
  }

 private:
  Length place(double amount) const { return Length(std::llround(amount / most_ * double(bars_width_))); }

  void limit(Length top) {
    const Length at = left_ + place(*bars_.limit);
    for (const auto& [from, to] : bands_)
      out_.line(at, from - px(3), at, to + px(3), fmt::format("stroke=\"{}\" stroke-dasharray=\"5 3\"", kLimitInk));
    const auto words = fmt::format("{} {}", bars_.limit_name, show_amount(*bars_.limit, bars_.unit));
    out_.label(kept_within(at, words, kTotal, margin_, width_ - px(2)), top - px(9), words,
               fmt::format("font-size=\"11\" text-anchor=\"middle\" fill=\"{}\"", kLimitInk));
  }

  // Draws at `y` and moves it below.
  void row(const Bars::Row& row, Length& y) {
    const auto words = words_of(bars_, row);
    const auto muted = fmt::format("font-size=\"11\" {}", kMuted);
    out_.raw(fmt::format("<g><title>{}</title>\n", escaped(row.name)));
    if (narrow_) {
      y += px(12);
      const Length first = y;
      paragraph(out_, margin_, y, bars_width_ - text_width(words, kTotal) - px(8), row.name, kName, "");
      out_.label(width_ - margin_, first, words, muted + " text-anchor=\"end\"");
      y += px(4);
    } else {
      const auto lines = wrapped(row.name, kName, left_ - px(8) - margin_ / 2);
      const Length more = kNameLine * Length(lines.size() - 1);
      Length at = y + px(13);
      for (const auto& line : lines) {
        out_.label(left_ - px(8), at, line, "font-size=\"12\" text-anchor=\"end\"");
        at += kNameLine;
      }
      y += more / 2;
      out_.label(left_ + bars_width_ + px(8), y + px(13), words, muted);
      below_ = more - more / 2;
    }
    out_.raw("</g>\n");
    out_.rectangle(left_, y, bars_width_, kBar, fmt::format("fill=\"{}\"", kLaneInk));
    double before = 0;
    for (std::size_t p = 0; p < row.values.size(); ++p) {
      const Length from = left_ + place(before), to = left_ + place(before + row.values[p]);
      before += row.values[p];
      if (to == from) continue;
      out_.raw(fmt::format("<g><title>{}: {}</title>\n", escaped(p < bars_.parts.size() ? bars_.parts[p] : row.name),
                           show_amount(row.values[p], bars_.unit)));
      out_.rectangle(from, y, to - from, kBar, fmt::format("fill=\"{}\"", color_of_part(bars_, p).text()));
      out_.raw("</g>\n");
    }
    bands_.emplace_back(y, y + kBar);
    y += kBar + kBetween + below_;
  }

  const Bars& bars_;
  const std::string& title_;
  const bool narrow_;
  const Length margin_;
  double most_ = 1;
  Length left_ = 0, width_ = 0, bars_width_ = 0;  // of the bars; of the picture; of the longest bar
  Length below_ = 0;                              // what a name of several lines needs below its bar
  std::vector<std::pair<Length, Length>> bands_;  // where bars are
  Canvas out_;
};

std::string replaced(std::string pattern, const std::string& what, const std::string& by) {
  if (const auto at = pattern.find(what); at != std::string::npos) pattern.replace(at, what.size(), by);
  return pattern;
}

}  // namespace

std::string draw(const Bars& bars, const std::string& title, Length room) {
  return BarsPicture(bars, title, room).draw();
}

Table table_of(const Bars& bars) {
  const auto amount = [](const Bars::Row& row, std::size_t part) {
    return part < row.values.size() ? row.values[part] : 0;
  };
  std::vector<std::size_t> parts;  // those that some bar has
  for (std::size_t p = 0; p < bars.parts.size(); ++p)
    if (bars.parts.size() == 1 ||
        std::any_of(bars.rows.begin(), bars.rows.end(), [&](const auto& row) { return amount(row, p) != 0; }))
      parts.push_back(p);
  Table table;
  table.head.push_back("");
  for (const auto p : parts) table.head.push_back(bars.parts[p]);
  const bool sums = parts.size() > 1;
  if (sums) table.head.push_back("together");
  for (std::size_t r = 0; r < bars.rows.size(); ++r) {
    const auto& row = bars.rows[r];
    if (bars.left_out && r == fold_of(bars).first) table.rows.push_back({{"..."}});
    auto& cells = table.rows.emplace_back();
    cells.push_back({row.name});
    for (const auto p : parts) {
      const auto json = replaced(replaced(replaced(bars.json, "{row}", std::to_string(r)), "{name}", row.name),
                                 "{part}", bars.parts[p]);
      cells.push_back({show_amount(amount(row, p), bars.unit), amount(row, p), json});
    }
    if (sums) cells.push_back({show_amount(total(row), bars.unit), total(row)});
  }
  return table;
}

}  // namespace rehearsal::page
