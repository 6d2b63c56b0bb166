// Points of two amounts, on straight or logarithmic scales.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "page/drawn_time.hpp"
#include "page/page.hpp"

namespace rehearsal::page {
namespace {

constexpr Length kTick = px(11);  // font size
constexpr std::size_t kMostInLegend = 10, kMostWithTips = 6000;

// The label of an axis tick: "100 ms", not "100.000 ms".
std::string tick(double amount, Unit unit) {
  auto text = show_amount(amount, unit);
  const auto point = text.find('.');
  if (point == std::string::npos) return text;
  const auto end = std::min(text.find_first_not_of("0123456789", point + 1), text.size());
  const auto last = text.find_last_not_of('0', end - 1);
  const auto keep = last == point ? point : last + 1;
  return text.erase(keep, end - keep);
}

class ScaleOf {
 public:
  ScaleOf(const Scatter::Scale& scale, std::vector<double> amounts, Length length) : scale_(scale), length_(length) {
    if (scale.logarithmic) std::erase_if(amounts, [](double a) { return !(a > 0); });
    if (amounts.empty()) amounts = {1};
    const auto [low, high] = std::minmax_element(amounts.begin(), amounts.end());
    low_ = place(*low), high_ = place(*high);
    const double room = std::max((high_ - low_) * .06, scale.logarithmic ? .04 : std::abs(high_) * 1e-3 + 1e-12);
    // Starts at zero if that costs little space, because readers compare lengths then.
    if (!scale.logarithmic && *low >= 0 && *low < .4 * *high)
      low_ = 0;
    else
      low_ -= room;
    high_ += room;
  }

  Length at(double amount) const {
    return Length(std::llround((place(amount) - low_) / (high_ - low_) * double(length_)));
  }
  bool holds(double amount) const {
    return (!scale_.logarithmic || amount > 0) && place(amount) >= low_ && place(amount) <= high_;
  }
  double low() const { return back(low_); }
  double high() const { return back(high_); }

  // About as many as asked for; two at least, or nobody could read the scale.
  std::vector<double> lines(int most) const {
    std::vector<double> all;
    if (scale_.logarithmic) {
      const double every = std::max(1., std::ceil((high_ - low_) / most));
      const bool few = high_ - low_ < 1.5;
      for (double decade = std::floor(low_); decade <= high_; decade += every)
        for (const double digit : few ? std::vector<double>{1, 2, 5} : std::vector<double>{1})
          if (const double amount = digit * std::pow(10, decade); holds(amount)) all.push_back(amount);
      if (all.size() > 1) return all;
      all.clear();
    }
    // Bytes are counted in powers of 1024: steps are round in the displayed unit.
    const double from = low(), to = high();
    double unit = 1;
    if (scale_.unit == Unit::bytes)
      while (to >= 1024 * unit) unit *= 1024;
    const double raw = (to - from) / unit / most, power = std::pow(10, std::floor(std::log10(raw)));
    double step = raw / power < 2 ? 2 * power : raw / power < 5 ? 5 * power : 10 * power;
    if (scale_.whole) step = std::max(step, 1.);
    for (double i = std::ceil(from / unit / step); i * step * unit <= to; ++i) all.push_back(i * step * unit);
    return all;
  }

 private:
  double place(double amount) const { return scale_.logarithmic ? std::log10(amount) : amount; }
  double back(double place) const { return scale_.logarithmic ? std::pow(10, place) : place; }

  const Scatter::Scale& scale_;
  Length length_;
  double low_ = 0, high_ = 1;
};

std::vector<double> amounts(const Scatter& scatter, bool of_y) {
  std::vector<double> all;
  for (const auto& p : scatter.points) all.push_back(of_y ? p.y : p.x);
  // A diagonal is meaningful only if both axes have the same scale.
  if (!scatter.slopes.empty())
    for (const auto& p : scatter.points) all.push_back(of_y ? p.x : p.y);
  for (const auto& [x, y] : scatter.curve) all.push_back(of_y ? y : x);
  return all;
}

class ScatterPicture {
 public:
  ScatterPicture(const Scatter& scatter, const std::string& title, Length room)
      : scatter_(scatter),
        title_(title),
        narrow_(room <= kNarrow),
        margin_(narrow_ ? px(4) : kMargin),
        left_(narrow_ ? px(68) : px(104)),
        width_(narrow_ ? room - left_ - px(16) : px(720)),
        height_(narrow_ ? px(280) : px(440)),
        x_(scatter.x, amounts(scatter, false), width_),
        y_(scatter.y, amounts(scatter, true), height_) {}

  std::string draw() {
    top_ = px(16);
    if (!title_.empty()) {
      top_ = px(34);
      paragraph(out_, margin_, top_, left_ + width_ - margin_, title_, px(15), "font-weight=\"600\"");
      top_ += px(22);
    }
    out_.label(margin_, top_, scatter_.y.title, "font-size=\"12\"");
    top_ += px(14);
    grid();
    for (std::size_t i = 0; i < scatter_.slopes.size(); ++i) slope(scatter_.slopes[i], i > 0);
    frontier();
    curve();
    points();
    Length bottom = top_ + height_ + px(46);
    if (scatter_.series.size() > 1 && scatter_.series.size() <= kMostInLegend) {
      std::vector<LegendEntry> entries;
      for (const auto& name : scatter_.series) entries.push_back({series(entries.size()), name});
      legend(out_, narrow_ ? margin_ : left_, left_ + width_, bottom += px(12), entries);
      bottom += px(12);
    }
    return svg_document(end(), bottom, title_, out_);
  }

 private:
  Length x(double amount) const { return left_ + x_.at(amount); }
  Length y(double amount) const { return top_ + height_ - y_.at(amount); }
  Length end() const { return left_ + width_ + (narrow_ ? px(16) : px(60)); }

  void grid() {
    for (const double a : x_.lines(int(width_ / px(110)))) {
      out_.line(x(a), top_, x(a), top_ + height_, fmt::format("stroke=\"{}\"", kGridInk));
      const auto words = tick(a, scatter_.x.unit);
      out_.label(kept_within(x(a), words, kTick, 0, end()), top_ + height_ + px(16), words,
                 fmt::format("font-size=\"11\" text-anchor=\"middle\" {}", kMuted));
    }
    for (const double a : y_.lines(6)) {
      out_.line(left_, y(a), left_ + width_, y(a), fmt::format("stroke=\"{}\"", kGridInk));
      out_.label(left_ - px(6), y(a) + px(4), tick(a, scatter_.y.unit),
                 fmt::format("font-size=\"11\" text-anchor=\"end\" {}", kMuted));
    }
    out_.label(left_ + width_ / 2, top_ + height_ + px(34), scatter_.x.title,
               "font-size=\"12\" text-anchor=\"middle\"");
  }

  void slope(double factor, bool dashed) {
    const double from = std::max(x_.low(), y_.low() / factor), to = std::min(x_.high(), y_.high() / factor);
    if (from >= to) return;
    out_.line(x(from), y(from * factor), x(to), y(to * factor),
              fmt::format("stroke=\"{}\"{}", kAxisInk, dashed ? " stroke-dasharray=\"4 4\"" : ""));
  }

  void frontier() {
    if (scatter_.frontier.size() < 2) return;
    auto steps = scatter_.frontier;
    std::sort(steps.begin(), steps.end());
    std::string path = fmt::format("M{} {}", text_of(x(steps[0].first)), text_of(y(steps[0].second)));
    for (std::size_t i = 1; i < steps.size(); ++i)
      path += fmt::format("H{}V{}", text_of(x(steps[i].first)), text_of(y(steps[i].second)));
    out_.raw(fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path, kLimitInk));
  }

  void curve() {
    if (scatter_.curve.size() < 2) return;
    std::string path;
    for (const auto& [a, b] : scatter_.curve)
      path += fmt::format("{}{} {}", path.empty() ? "M" : "L", text_of(x(a)), text_of(y(b)));
    out_.raw(fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path, kAxisInk));
  }

  void points() {
    const bool tips = scatter_.points.size() <= kMostWithTips;
    for (const bool marked : {false, true})
      for (const auto& p : scatter_.points) {
        if (p.marked != marked || !x_.holds(p.x) || !y_.holds(p.y)) continue;
        out_.raw(fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\" fill-opacity=\"{}\"", text_of(x(p.x)),
                             text_of(y(p.y)), marked ? "5.5" : "3.5", series(p.series).text(), marked ? "1" : ".65"));
        out_.raw(tips && !p.tip.empty() ? fmt::format("><title>{}</title></circle>\n", escaped(p.tip)) : "/>\n");
      }
    labels();
  }

  // Beside its point, on whichever side there is room; where there is none, the point's tip has it.
  void labels() {
    struct Box {
      Length left, top, right, bottom;
    };
    std::vector<Box> taken;
    for (const auto& p : scatter_.points) {
      if (!p.marked || p.label.empty() || !x_.holds(p.x) || !y_.holds(p.y)) continue;
      const Length wide = text_width(p.label, kTick);
      for (const auto& [right, base] : {std::pair{true, -px(5)}, {false, -px(5)}, {true, px(14)}, {false, px(14)}}) {
        const Length from = x(p.x) + (right ? px(9) : -px(9) - wide), at = y(p.y) + base;
        const Box box{from, at - px(11), from + wide, at + px(3)};
        if (box.left < 0 || box.right > end() || box.bottom > top_ + height_ ||
            std::any_of(taken.begin(), taken.end(), [&](const Box& other) {
              return box.left < other.right && other.left < box.right && box.top < other.bottom &&
                     other.top < box.bottom;
            }))
          continue;
        out_.label(from, at, p.label, fmt::format("font-size=\"11\" {}", kHalo));
        taken.push_back(box);
        break;
      }
    }
  }

  const Scatter& scatter_;
  const std::string& title_;
  const bool narrow_;
  const Length margin_, left_, width_, height_;  // of the plot, but for the margin
  ScaleOf x_, y_;
  Length top_ = 0;
  Canvas out_;
};

}  // namespace

std::string draw(const Scatter& scatter, const std::string& title, Length room) {
  return ScatterPicture(scatter, title, room).draw();
}

Table table_of(const Scatter& scatter) {
  Table table;
  const bool several = scatter.series.size() > 1;
  table.head = {""};
  if (several) table.head.push_back("series");
  table.head.push_back(scatter.x.title), table.head.push_back(scatter.y.title);
  table.words = {true, several};
  for (const auto& p : scatter.points) {
    auto& cells = table.rows.emplace_back();
    cells.push_back({p.label.empty() ? p.tip : p.label});
    if (several) cells.push_back({scatter.series[p.series]});
    cells.push_back({show_amount(p.x, scatter.x.unit), p.x});
    cells.push_back({show_amount(p.y, scatter.y.unit), p.y});
  }
  return table;
}

}  // namespace rehearsal::page
