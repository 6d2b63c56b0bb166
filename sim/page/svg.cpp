#include "page/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "page/canvas.hpp"
#include "page/drawn_time.hpp"
#include "page/grid.hpp"

namespace rehearsal::page {
namespace {

constexpr std::uint32_t kMostRanksDrawn = 64;  // more ranks than this: the middle is left out
constexpr std::uint32_t kMaxStrips = 12;       // more ranks than this: memory as lines in one frame
constexpr std::size_t kMaxWithTips = 4000;     // boxes
constexpr Length kSmallestDigit = px(9);
constexpr Length kNameWidth = px(64);

class TimedBoxes {
 public:
  explicit TimedBoxes(const Drawing& drawing) : drawing_(drawing), fold_(elided_rows(drawing.rows, kMostRanksDrawn)) {
    std::int64_t last = drawing.until.count();
    begin_ = INT64_MAX;
    std::vector<std::size_t> boxes_of(drawing.rows);
    for (const auto& box : drawing.boxes) {
      INVARIANT(box.row < drawing.rows, fmt::format("a box on row {} of {}", box.row, drawing.rows));
      begin_ = std::min(begin_, box.start.count());
      last = std::max(last, box.end.count());
      boxes_of[box.row]++;
    }
    if (drawing.boxes.empty()) begin_ = 0;
    span_ = std::max<std::int64_t>(1, last - begin_);
    // About 22 pixels per box, so that two digits fit; a long schedule is at most as wide as a large screen.
    const std::size_t most =
        std::max(drawing.most_boxes, boxes_of.empty() ? 0 : *std::max_element(boxes_of.begin(), boxes_of.end()));
    width_ = px(std::clamp<std::int64_t>(std::int64_t(most) * 22, 760, 1720));
    const std::uint32_t shown = fold_.first + fold_.last;  // of the ranks
    row_ = shown <= 12 ? px(26) : shown <= 24 ? px(20) : px(14);
    // Two boxes above each other need numbers that can be read.
    if (shown <= 24 && std::any_of(drawing.boxes.begin(), drawing.boxes.end(),
                                   [](const SvgBox& box) { return box.half != Half::whole; }))
      row_ = px(28);
    for (const auto& name : drawing.row_names)
      names_ = std::max(names_, text_width(name, px(row_ >= px(20) ? 12 : 10)) + px(10) - kMargin / 2);
    digits_ = digit_size();
  }

  std::string draw() {
    Length y = px(36);
    heading(y);
    y += px(18);
    rows(y);
    time_axis(out_, left(), width_, y, span_);
    y += px(30);
    if (!drawing_.memory.empty()) memory(y);
    legend(y);
    return svg_document(left() + width_ + kMargin + px(28), y + px(14), drawing_.title + ": " + drawing_.subtitle,
                        out_);
  }

 private:
  Length left() const { return kMargin + names_; }
  Length x(std::int64_t time) const { return left() + place_in(span_, time - begin_, width_); }
  std::string row_name(std::int64_t r) const {
    return drawing_.row_names.empty() ? fmt::format("rank {}", r) : drawing_.row_names[std::size_t(r)];
  }
  // The visible rows, in order; -1 stands for those left out.
  std::vector<std::int64_t> shown() const {
    std::vector<std::int64_t> list;
    for (std::int64_t r = 0; r < std::int64_t(drawing_.rows); r++) {
      if (fold_.hidden && r == fold_.first) list.push_back(-1), r += fold_.hidden;
      list.push_back(r);
    }
    return list;
  }

  // A digit is up to 0.64 of its font size wide.
  static Length fitting(Length room, std::size_t characters) {
    return characters == 0 ? 0 : room * 100 / (64 * Length(characters));
  }
  // Numbers are drawn only if the longest one fits into three boxes of four: a picture with some numbers looks broken.
  Length digit_size() const {
    std::vector<Length> widths;
    std::size_t longest = 0;
    for (const auto& box : drawing_.boxes) {
      widths.push_back(x(box.end.count()) - x(box.start.count()));
      longest = std::max(longest, box.label.size());
    }
    if (widths.empty()) return 0;
    const auto quarter = widths.begin() + std::ptrdiff_t(widths.size() / 4);
    std::nth_element(widths.begin(), quarter, widths.end());
    const Length size = fitting(*quarter - px(2), longest);
    return size < kSmallestDigit ? 0 : std::min({size, px(12), row_ * 7 / 10});
  }

  void heading(Length& y) {
    const Length room = names_ + width_ + px(28);
    paragraph(out_, kMargin, y, room, drawing_.title, px(17), "font-weight=\"600\"");
    y += px(20);
    paragraph(out_, kMargin, y, room, drawing_.subtitle, px(13), kMuted);
  }

  // --- the rows of boxes --------------------------------------------------------------------------------------------
  void rows(Length& y) {
    std::vector<std::vector<const SvgBox*>> of_row(drawing_.rows);
    for (const auto& box : drawing_.boxes) of_row[box.row].push_back(&box);
    const Length gap = row_ >= px(20) ? px(4) : px(2);
    for (const std::int64_t r : shown()) {
      if (r < 0) {
        out_.label(left(), y + row_ * 7 / 10,
                   fmt::format("\xe2\x8b\xae {} more {}", fold_.hidden, drawing_.row_names.empty() ? "ranks" : "rows"),
                   fmt::format("font-size=\"11\" {}", kMuted));
        y += row_ + gap;
        continue;
      }
      out_.label(left() - px(10), y + row_ / 2 + px(4), row_name(r),
                 fmt::format("font-size=\"{}\" text-anchor=\"end\"", row_ >= px(20) ? 12 : 10));
      out_.rectangle(left(), y, width_, row_, "fill=\"#eef1f5\"");
      auto& boxes = of_row[std::size_t(r)];
      std::sort(boxes.begin(), boxes.end(), [](const SvgBox* a, const SvgBox* b) {
        return std::tuple(a->start, a->end, a->half) < std::tuple(b->start, b->end, b->half);
      });
      row(boxes, y);
      y += row_ + gap;
    }
    y -= gap;
  }

  void row(const std::vector<const SvgBox*>& boxes, Length y) {
    const bool tips = drawing_.boxes.size() <= kMaxWithTips;
    Canvas numbers;
    for (std::size_t i = 0; i < boxes.size(); i++) {
      const SvgBox& box = *boxes[i];
      const Length from = x(box.start.count());
      Length to = x(box.end.count());
      const Rgb color = tint_of(box.kind, box.chunk, drawing_.chunks);
      // Below three pixels a gap would hide the box: equal neighbours are merged.
      const std::size_t first = i;
      if (to - from < px(3) && !tips)
        while (i + 1 < boxes.size() && boxes[i + 1]->kind == box.kind && boxes[i + 1]->chunk == box.chunk &&
               boxes[i + 1]->half == box.half && x(boxes[i + 1]->start.count()) <= to)
          to = x(boxes[++i]->end.count());
      if (to == from) continue;
      const bool split = box.half != Half::whole;
      const Length height = split ? row_ / 2 : row_, top = y + (box.half == Half::lower ? row_ - height : 0);
      const Length inset = to - from > px(5) ? 50 : to - from > px(2) ? 20 : 0;
      out_.rectangle(from + inset, top, to - from - 2 * inset, height - (box.half == Half::upper ? 50 : 0),
                     fmt::format("fill=\"{}\"{}", color.text(), to - from > px(8) ? " rx=\"2\"" : ""),
                     tips ? std::string_view(box.tip) : std::string_view());
      if (i == first) number(numbers, box, color, from, to, top, height);
    }
    // One element for all numbers, which ignores the mouse: fewer elements per box keep large pictures fast.
    if (!numbers.body().empty())
      out_.raw("<g text-anchor=\"middle\" pointer-events=\"none\">\n" + numbers.body() + "</g>\n");
  }

  void number(Canvas& out, const SvgBox& box, Rgb color, Length from, Length to, Length top, Length height) {
    const Length size = std::min({digits_, fitting(to - from - px(2), box.label.size()), height * 8 / 10});
    if (size < kSmallestDigit) return;
    out.label((from + to) / 2, top + height / 2 + size * 35 / 100, box.label,
              fmt::format("font-size=\"{}\" fill=\"{}\"", text_of(size), ink_on(color)));
  }

  // --- memory -------------------------------------------------------------------------------------------------------
  void memory(Length& y) {
    y += px(22);
    out_.label(kMargin, y, "memory per rank", "font-size=\"13\" font-weight=\"600\"");
    if (drawing_.rows <= kMaxStrips)
      out_.label(left() + width_ + px(6), y, "peak", fmt::format("font-size=\"11\" {}", kMuted));
    y += px(10);
    double most = drawing_.memory_limit.value_or(0);
    for (const auto& steps : drawing_.memory)
      for (const auto& step : steps) most = std::max(most, step.amount);
    if (!(most > 0)) most = 1;
    if (drawing_.rows <= kMaxStrips)
      strips(y, most);
    else
      lines(y, most);
    y += px(16);
  }

  // The outline of one rank's memory inside a frame, as path commands; it starts and ends at the frame's bottom.
  std::string outline(const std::vector<MemoryStep>& steps, Length bottom, Length height, double most) const {
    const auto level = [&](double amount) { return bottom - Length(std::llround(amount / most * double(height))); };
    std::string path = fmt::format("M{} {}", text_of(x(begin_)), text_of(bottom));
    Length now = bottom, drawn = x(begin_);
    for (std::size_t i = 0; i < steps.size(); i++) {
      const Length at = x(steps[i].at.count());
      // Steps that are reversed within a pixel and a half would be hairlines and are skipped; peaks are always kept.
      Length to = level(steps[i].amount);
      while (i + 1 < steps.size() && x(steps[i + 1].at.count()) - at < 150 && level(steps[i + 1].amount) <= to)
        to = level(steps[++i].amount);
      if (to == now) continue;
      if (at != drawn) path += "H" + text_of(at);
      path += "V" + text_of(to);
      now = to, drawn = at;
    }
    return path + "H" + text_of(left() + width_);
  }

  static std::string amount_text(double amount) { return fmt::format("{:.4g}", amount); }

  void limit_line(Length bottom, Length height, double most, bool name) {
    if (!drawing_.memory_limit) return;
    const Length at = bottom - Length(std::llround(*drawing_.memory_limit / most * double(height)));
    out_.line(left(), at, left() + width_, at, fmt::format("stroke=\"{}\" stroke-dasharray=\"5 3\"", kLimitInk));
    if (name)
      out_.label(left() + width_, at - px(4), "limit " + amount_text(*drawing_.memory_limit),
                 fmt::format("font-size=\"11\" text-anchor=\"end\" fill=\"{}\" {}", kLimitInk, kHalo));
  }

  void strips(Length& y, double most) {
    const Length height = px(28);
    for (std::uint32_t r = 0; r < drawing_.rows; r++) {
      const Length bottom = y + px(6) + height;
      const auto& steps = drawing_.memory[r];
      double peak = 0;
      for (const auto& step : steps) peak = std::max(peak, step.amount);
      out_.label(left() - px(10), bottom - height / 2 + px(4), fmt::format("rank {}", r),
                 "font-size=\"12\" text-anchor=\"end\"");
      out_.raw(fmt::format("<path d=\"{}V{}Z\" fill=\"#c9b8e8\" stroke=\"#7e57c2\" stroke-width=\"0.8\"/>\n",
                           outline(steps, bottom, height, most), text_of(bottom)));
      out_.line(left(), bottom, left() + width_, bottom, "stroke=\"#8a94a3\"");
      limit_line(bottom, height, most, r == 0);
      out_.label(left() + width_ + px(6), bottom - height / 2 + px(4), amount_text(peak),
                 fmt::format("font-size=\"11\" {}", kMuted));
      y = bottom + px(4);
    }
  }

  void lines(Length& y, double most) {
    const Length height = px(180), bottom = y + height;
    constexpr Rgb kFirst{94, 53, 177}, kLast{38, 166, 154};
    for (const int quarter : {0, 1, 2, 3, 4}) {
      const Length at = bottom - height * quarter / 4;
      out_.line(left(), at, left() + width_, at, quarter ? "stroke=\"#e3e7ec\"" : "stroke=\"#8a94a3\"");
      out_.label(left() - px(10), at + px(4), amount_text(most * quarter / 4),
                 fmt::format("font-size=\"11\" text-anchor=\"end\" {}", kMuted));
    }
    for (std::uint32_t r = 0; r < drawing_.rows; r++) {
      if (fold_.hidden && r == fold_.first) r += fold_.hidden;
      const Rgb color = mix(kFirst, kLast, int(1000 * std::uint64_t(r) / (drawing_.rows - 1)));
      out_.raw(
          fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"0.9\"><title>rank {}</title></path>\n",
                      outline(drawing_.memory[r], bottom, height, most), color.text(), r));
    }
    limit_line(bottom, height, most, true);
    y = bottom + px(20);
    page::legend(out_, left(), left() + width_, y,
                 {{kFirst, "rank 0"}, {kLast, fmt::format("to rank {}", drawing_.rows - 1)}});
  }

  // --- legend -------------------------------------------------------------------------------------------------------
  void legend(Length& y) {
    y += px(20);
    Length at = left();
    for (const auto& kind : kFillings) {
      if (std::none_of(drawing_.boxes.begin(), drawing_.boxes.end(),
                       [&](const SvgBox& box) { return box.kind == kind.letter; }))
        continue;
      const std::uint32_t tiles = std::min(drawing_.chunks, 8u);
      const Length words = text_width(kind.name, px(12));
      wrap_legend(at, y, px(17) * tiles + px(5) + words);
      for (std::uint32_t c = 0; c < tiles; c++) {
        const Rgb color = tint_of(kind.letter, c * drawing_.chunks / tiles, drawing_.chunks);
        out_.rectangle(at, y - px(12), px(16), px(16), fmt::format("fill=\"{}\" rx=\"2\"", color.text()));
        if (c == 0)
          out_.label(at + px(8), y, std::string(1, kind.letter),
                     fmt::format("font-size=\"11\" text-anchor=\"middle\" fill=\"{}\"", ink_on(color)));
        at += px(17);
      }
      out_.label(at + px(5), y, kind.name, "font-size=\"12\"");
      at += px(5) + words + px(24);
    }
    if (drawing_.chunks < 2) return;
    const std::string tints = "dark to light: " + drawing_.tints;
    wrap_legend(at, y, text_width(tints, px(12)));
    out_.label(at, y, tints, fmt::format("font-size=\"12\" {}", kMuted));
  }
  void wrap_legend(Length& at, Length& y, Length width) const {
    if (at == left() || at + width <= left() + width_) return;
    at = left();
    y += px(22);
  }

  const Drawing& drawing_;
  ElidedRows fold_;
  std::int64_t begin_ = 0, span_ = 1;
  Length width_ = 0, row_ = 0, names_ = kNameWidth;
  Length digits_ = 0;  // font size of the numbers; 0 = none
  Canvas out_;
};

}  // namespace

std::string draw_svg(const Drawing& drawing) { return TimedBoxes(drawing).draw(); }

}  // namespace rehearsal::page
