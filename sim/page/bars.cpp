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

constexpr Length kFewestNames = px(80), kMostNames = px(340), kBarsWidth = px(600), kTotals = px(190), kBar = px(18),
                 kBetween = px(6);
constexpr Length kLetter = 620;  // average one at 12 pixels

double total(const Bars::Row& row) { return std::accumulate(row.values.begin(), row.values.end(), 0.); }

Rgb color_of_part(const Bars& bars, std::size_t part) {
  return part < bars.colors.size() ? bars.colors[part] : series(part);
}

class BarsPicture {
 public:
  BarsPicture(const Bars& bars, const std::string& title) : bars_(bars), title_(title) {
    most_ = 0;
    for (const auto& row : bars.rows) most_ = std::max(most_, total(row));
    if (bars.limit && *bars.limit <= 4 * most_) most_ = std::max(most_, *bars.limit);  // else far outside the picture
    if (!(most_ > 0)) most_ = 1;
    std::size_t longest = 0;
    for (const auto& row : bars.rows) longest = std::max(longest, row.name.size());
    names_ = std::clamp(Length(longest) * kLetter + px(16), kFewestNames, kMostNames);
  }

  std::string draw() {
    Length y = kMargin;
    if (!title_.empty()) {
      y += px(10);
      out_.label(kMargin, y, title_, "font-size=\"15\" font-weight=\"600\"");
      y += px(14);
    }
    if (bars_.parts.size() > 1) {
      std::vector<LegendEntry> entries;
      for (std::size_t p = 0; p < bars_.parts.size(); ++p)
        if (std::any_of(bars_.rows.begin(), bars_.rows.end(),
                        [&](const auto& row) { return p < row.values.size() && row.values[p] > 0; }))
          entries.push_back({color_of_part(bars_, p), bars_.parts[p]});
      legend(out_, left(), left() + kBarsWidth + kTotals, y += px(8), entries);
      y += px(12);
    }
    if (bars_.limit && *bars_.limit <= most_) y += px(12);
    const Length top = y;
    const ElidedRows fold = elided_rows(std::uint32_t(bars_.rows.size()), kMostBars);
    for (std::uint32_t r = 0; r < bars_.rows.size(); ++r) {
      if (fold.hidden && r == fold.first) {
        out_.label(left(), y + px(13), fmt::format("\xe2\x8b\xae {} more", fold.hidden),
                   fmt::format("font-size=\"11\" {}", kMuted));
        y += kBar + kBetween;
        r += fold.hidden;
      }
      row(bars_.rows[r], y);
      y += kBar + kBetween;
    }
    if (bars_.limit && *bars_.limit <= most_) {
      const Length at = left() + place(*bars_.limit);
      out_.line(at, top - px(6), at, y, fmt::format("stroke=\"{}\" stroke-dasharray=\"5 3\"", kLimitInk));
      out_.label(at, top - px(9), fmt::format("{} {}", bars_.limit_name, show_amount(*bars_.limit, bars_.unit)),
                 fmt::format("font-size=\"11\" text-anchor=\"middle\" fill=\"{}\"", kLimitInk));
    }
    return svg_document(left() + kBarsWidth + kTotals, y + px(10), title_, out_);
  }

 private:
  Length left() const { return kMargin + names_; }
  Length place(double amount) const { return Length(std::llround(amount / most_ * double(kBarsWidth))); }

  void row(const Bars::Row& row, Length y) {
    const auto fitting = std::size_t((names_ - px(8)) / kLetter);
    const bool cut = row.name.size() > fitting;
    out_.raw(fmt::format("<g><title>{}</title>\n", escaped(row.name)));
    out_.label(left() - px(8), y + px(13), cut ? row.name.substr(0, fitting - 1) + "\xe2\x80\xa6" : row.name,
               "font-size=\"12\" text-anchor=\"end\"");
    out_.raw("</g>\n");
    out_.rectangle(left(), y, kBarsWidth, kBar, fmt::format("fill=\"{}\"", kLaneInk));
    double before = 0;
    for (std::size_t p = 0; p < row.values.size(); ++p) {
      const Length from = left() + place(before), to = left() + place(before + row.values[p]);
      before += row.values[p];
      if (to == from) continue;
      out_.raw(fmt::format("<g><title>{}: {}</title>\n", escaped(p < bars_.parts.size() ? bars_.parts[p] : row.name),
                           show_amount(row.values[p], bars_.unit)));
      out_.rectangle(from, y, to - from, kBar, fmt::format("fill=\"{}\"", color_of_part(bars_, p).text()));
      out_.raw("</g>\n");
    }
    const auto words = show_amount(total(row), bars_.unit) + (row.more.empty() ? "" : "  " + row.more);
    out_.label(left() + place(total(row)) + px(6), y + px(13), words, fmt::format("font-size=\"11\" {}", kMuted));
  }

  const Bars& bars_;
  const std::string& title_;
  double most_ = 1;
  Length names_ = kFewestNames;  // width of the longest name, up to a maximum
  Canvas out_;
};

std::string replaced(std::string pattern, const std::string& what, const std::string& by) {
  if (const auto at = pattern.find(what); at != std::string::npos) pattern.replace(at, what.size(), by);
  return pattern;
}

}  // namespace

std::string draw(const Bars& bars, const std::string& title) { return BarsPicture(bars, title).draw(); }

Table table_of(const Bars& bars) {
  Table table;
  table.head.push_back("");
  for (const auto& part : bars.parts) table.head.push_back(part);
  const bool sums = bars.parts.size() > 1;
  if (sums) table.head.push_back("together");
  for (std::size_t r = 0; r < bars.rows.size(); ++r) {
    const auto& row = bars.rows[r];
    auto& cells = table.rows.emplace_back();
    cells.push_back({row.name});
    for (std::size_t p = 0; p < bars.parts.size(); ++p) {
      const double value = p < row.values.size() ? row.values[p] : 0;
      const auto json = replaced(replaced(replaced(bars.json, "{row}", std::to_string(r)), "{name}", row.name),
                                 "{part}", bars.parts[p]);
      cells.push_back({show_amount(value, bars.unit), value, json});
    }
    if (sums) cells.push_back({show_amount(total(row), bars.unit), total(row)});
  }
  return table;
}

}  // namespace rehearsal::page
