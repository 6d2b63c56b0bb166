// The picture of a collective: a column per rank, a band of arrows per step, and between steps the chunks that each
// rank holds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "collective/holdings.hpp"
#include "page/canvas.hpp"
#include "report/collective_report.hpp"

namespace rehearsal::report {

using namespace page;
namespace {

using cost::OneCollective;

constexpr std::uint32_t kMostRanksDrawn = 32;
constexpr std::size_t kMostSteps = 200;
constexpr Length kNames = px(92), kBand = px(64), kBox = px(24);
constexpr std::array kChunks{Rgb{66, 122, 214}, Rgb{38, 156, 142}, Rgb{226, 150, 40}, Rgb{196, 78, 96},
                             Rgb{126, 87, 194}, Rgb{96, 148, 60},  Rgb{90, 110, 130}, Rgb{180, 100, 60}};

constexpr Rgb kMany{90, 102, 117};

class Ladder {
 public:
  explicit Ladder(const OneCollective& one)
      : one_(one),
        ranks_(one.question.ranks),
        columns_(ranks_ + one.algorithm->switches),
        parts_(collective::parts_of(*one.algorithm, one.quote.shape)),
        held_(collective::holdings(*one.algorithm, one.quote.shape, one.steps)) {
    box_ = std::clamp(px(24) * parts_, px(72), px(120));
    spacing_ = box_ + px(columns_ <= 8 ? 64 : 40);
  }

  std::string draw() {
    Length y = px(36);
    const auto adding =
        std::count_if(one_.steps.begin(), one_.steps.end(), [](const auto& step) { return step_verb(step) == "adds"; });
    out_.label(kMargin, y, fmt::format("{} of {} ranks", one_.algorithm->name, ranks_),
               "font-size=\"18\" font-weight=\"600\"");
    y += px(22);
    const auto steps = std::int64_t(one_.steps.size());
    const auto both = fmt::format(": {} add{}, {} cop{}", adding, adding == 1 ? "s" : "", steps - adding,
                                  steps - adding == 1 ? "ies" : "y");
    const auto kinds = fmt::format("{} step{}{}", steps, steps == 1 ? "" : "s",
                                   adding == steps ? " that add"
                                   : adding == 0   ? ""
                                                   : both);
    out_.label(kMargin, y,
               fmt::format("{} \xc2\xb7 {} chunks of {} \xc2\xb7 the busiest rank sends {}", kinds, parts_,
                           show(bytes(one_.part_bytes())),
                           show(one_.algorithm->bytes_sent_per_rank(one_.quote.shape, one_.question.size))),
               fmt::format("font-size=\"13\" {}", kMuted));
    y += px(34);
    for (std::uint32_t c = 0; c < columns_; ++c)
      out_.label(x(c), y, c < ranks_ ? fmt::format("rank {}", c) : "switch",
                 "font-size=\"13\" font-weight=\"600\" text-anchor=\"middle\"");
    y += px(12);
    out_.label(kMargin, y + kBox / 2 + px(4), held_.after.empty() ? "" : "at first", small());
    boxes(0, y);
    y += kBox;
    for (std::size_t k = 0; k < one_.steps.size(); ++k) {
      out_.raw(fmt::format("<g data-step=\"{}\">\n", k + 1));  // for pages that show one step at a time
      band(k, y);
      y += kBand;
      boxes(k + 1, y);
      y += kBox;
      out_.raw("</g>\n");
    }
    legend(y += px(28));
    return svg_document(width(), y + px(18), fmt::format("{} of {} ranks", one_.algorithm->name, ranks_), out_);
  }

 private:
  static std::string small() { return fmt::format("font-size=\"11\" {}", kMuted); }
  static Rgb color(std::uint32_t chunk) { return kChunks[chunk % kChunks.size()]; }
  static Rgb color(const Arrow& arrow) { return arrow.chunks.size() > 2 ? kMany : color(arrow.chunks.front()); }
  Length x(std::uint32_t column) const { return kMargin + kNames + edge() + box_ / 2 + spacing_ * column; }
  Length edge() const { return px(22); }  // where arrows leave on one side and re-enter on the other
  Length width() const { return std::max(px(560), x(columns_ - 1) + box_ / 2 + edge() + kMargin); }

  void boxes(std::size_t at, Length y) {
    for (std::uint32_t rank = 0; rank < columns_; ++rank) {
      if (held_.after.empty() || rank >= ranks_) {
        out_.rectangle(x(rank) - box_ / 2, y, box_, kBox, "fill=\"#eef1f5\" stroke=\"#b8c0cc\" rx=\"3\"");
        continue;
      }
      for (std::uint32_t part = 0; part < parts_; ++part) {
        const auto count = held_.after[at][rank][part];
        const Length from = x(rank) - box_ / 2 + box_ * part / parts_,
                     to = x(rank) - box_ / 2 + box_ * (part + 1) / parts_;
        const bool full = count == held_.full;
        const int white = count == 0 ? 1000 : full ? 0 : 820 - int(420 * count / held_.full);
        const Rgb fill = mix(color(part), kWhite, white);
        out_.rectangle(from, y, to - from, kBox,
                       fmt::format("fill=\"{}\" stroke=\"{}\" stroke-width=\"0.8\"", fill.text(), kFrame));
        if (count > 0 && held_.full > 1 && to - from >= px(14))
          out_.label((from + to) / 2, y + kBox / 2 + px(4), std::to_string(count),
                     fmt::format("font-size=\"11\" text-anchor=\"middle\" fill=\"{}\"{}", ink_on(fill),
                                 full ? " font-weight=\"700\"" : ""));
      }
    }
  }

  void band(std::size_t k, Length y) {
    out_.label(kMargin, y + kBand / 2, fmt::format("step {}", k + 1), "font-size=\"13\"");
    out_.label(kMargin, y + kBand / 2 + px(15), step_verb(one_.steps[k]), small());
    const auto all = arrows(one_.steps[k]);
    for (const auto& arrow : all) line(arrow, y + px(3), y + kBand - px(3));
    for (const auto& arrow : all) name(arrow, y + px(3), y + kBand - px(3));
  }

  // Without a switch, arrows take the shorter way around, as on a cylinder.
  std::int64_t distance(const Arrow& arrow) const {
    const auto straight = std::int64_t(arrow.to) - std::int64_t(arrow.from);
    if (columns_ > ranks_ || ranks_ < 3 || 2 * std::abs(straight) <= std::int64_t(ranks_)) return straight;
    return straight > 0 ? straight - ranks_ : straight + ranks_;
  }

  // How far an arrow is drawn before it leaves the picture, in thousandths.
  std::int64_t visible(const Arrow& arrow) const {
    const auto far = distance(arrow) * spacing_;
    const Length room =
        far > 0 ? x(columns_ - 1) + box_ / 2 + edge() - x(arrow.from) : x(arrow.from) - (x(0) - box_ / 2 - edge());
    return std::abs(far) <= room ? 1000 : 1000 * room / std::abs(far);
  }
  bool wraps(const Arrow& arrow) const { return distance(arrow) != std::int64_t(arrow.to) - std::int64_t(arrow.from); }

  void line(const Arrow& arrow, Length top, Length bottom) {
    const auto style = fmt::format("stroke=\"{}\" stroke-width=\"1.8\"", color(arrow).text());
    const Length far = distance(arrow) * spacing_, high = bottom - top;
    if (!wraps(arrow)) {
      out_.line(x(arrow.from), top, x(arrow.to), bottom, style);
    } else {
      const auto part = visible(arrow);
      out_.line(x(arrow.from), top, x(arrow.from) + far * part / 1000, top + high * part / 1000, style);
      Arrow back = arrow;
      std::swap(back.from, back.to);
      const Length room =
          far > 0 ? x(arrow.to) - (x(0) - box_ / 2 - edge()) : x(columns_ - 1) + box_ / 2 + edge() - x(arrow.to);
      const auto rest = std::min<std::int64_t>(1000, 1000 * room / std::abs(far));
      out_.line(x(arrow.to) - far * rest / 1000, bottom - high * rest / 1000, x(arrow.to), bottom, style);
    }
    head(far, high, x(arrow.to), bottom, color(arrow));
  }

  // In integers: the square root is rounded to a hundredth of a pixel.
  void head(Length far, Length high, Length at, Length bottom, Rgb fill) {
    const auto length = std::max<Length>(1, std::llround(std::sqrt(double(far * far + high * high))));
    const Length long_side = px(9), half = px(4);
    const Length bx = at - far * long_side / length, by = bottom - high * long_side / length;
    out_.triangle(at, bottom, bx - high * half / length, by + far * half / length, bx + high * half / length,
                  by - far * half / length, fmt::format("fill=\"{}\"", fill.text()));
  }

  void name(const Arrow& arrow, Length top, Length bottom) {
    const auto at = wraps(arrow)           ? visible(arrow) * 6 / 10
                    : arrow.from >= ranks_ ? 700
                    : arrow.to >= ranks_   ? 300
                                           : 500;
    out_.label(x(arrow.from) + distance(arrow) * spacing_ * at / 1000, top + (bottom - top) * at / 1000 + px(4),
               chunk_text(arrow.chunks),
               fmt::format("font-size=\"12\" font-weight=\"600\" text-anchor=\"middle\" {}", kHalo));
  }

  void legend(Length y) {
    std::string text = "On an arrow: the chunk that is sent.";
    if (!held_.after.empty())
      text += held_.full > 1
                  ? fmt::format(" In a box: how many ranks have added to that chunk; {} is the sum.", held_.full)
                  : " In a box: the chunks that a rank has.";
    out_.label(kMargin, y, text, small());
  }

  static constexpr std::string_view kFrame = "#8a94a3";
  const OneCollective& one_;
  std::uint32_t ranks_, columns_, parts_;
  collective::Holdings held_;
  Length box_ = 0, spacing_ = 0;
  Canvas out_;
};

}  // namespace

std::string to_svg(const OneCollective& one) {
  if (one.question.ranks > kMostRanksDrawn || one.steps.size() > kMostSteps)
    throw UserError(fmt::format("--svg draws up to {} ranks and {} steps; found {} and {}", kMostRanksDrawn, kMostSteps,
                                one.question.ranks, one.algorithm->steps(one.quote.shape)));
  return Ladder(one).draw();
}

}  // namespace rehearsal::report
