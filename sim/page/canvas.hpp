// Drawing primitives of SVG pictures. Coordinates are integers in hundredths of a pixel, and colours are integers too,
// so the same drawing gives the same bytes everywhere.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "page/markup.hpp"

namespace rehearsal::page {

// Lengths are in hundredths of a pixel.
using Length = std::int64_t;
constexpr Length px(std::int64_t pixels) { return pixels * 100; }
inline constexpr Length kMargin = px(24);  // around a picture

inline std::string text_of(Length length) {
  std::string text = fmt::format("{}{}", length < 0 ? "-" : "", std::abs(length) / 100);
  if (const auto rest = std::abs(length) % 100)
    text += rest % 10 ? fmt::format(".{:02}", rest) : fmt::format(".{}", rest / 10);
  return text;
}

struct Rgb {
  int red, green, blue;
  std::string text() const { return fmt::format("#{:02x}{:02x}{:02x}", red, green, blue); }
  // Relative luminance, 0 to 1 (WCAG 2.2, section 3).
  double luminance() const {
    const auto linear = [](int part) {
      const double share = part / 255.;
      return share <= .04045 ? share / 12.92 : std::pow((share + .055) / 1.055, 2.4);
    };
    return .2126 * linear(red) + .7152 * linear(green) + .0722 * linear(blue);
  }
};

// In integers: the same bytes everywhere.
inline Rgb mix(Rgb a, Rgb b, int thousandths_of_b) {
  const auto part = [&](int x, int y) { return (x * (1000 - thousandths_of_b) + y * thousandths_of_b + 500) / 1000; };
  return {part(a.red, b.red), part(a.green, b.green), part(a.blue, b.blue)};
}

inline constexpr Rgb kWhite{255, 255, 255};

// Colours for numbered items: consecutive ones differ in hue, those of equal hue in tint.
inline Rgb color_of_number(std::uint32_t number) {
  constexpr Rgb kHues[] = {{66, 122, 214}, {226, 150, 40}, {38, 156, 142}, {196, 78, 96},
                           {126, 87, 194}, {96, 148, 60},  {90, 110, 130}, {180, 100, 60}};
  constexpr int kTints[] = {0, 420, 680};  // share of white, in thousandths
  return mix(kHues[number % std::size(kHues)], kWhite, kTints[number / std::size(kHues) % std::size(kTints)]);
}

// The better of the two, which has a contrast of 4.58 at the least, on any colour; a softer black would not.
inline std::string_view ink_on(Rgb background) { return background.luminance() > .1791 ? "#000000" : "#ffffff"; }

// Inks for everything but data, in light mode; dark documents invert them (page/html.cpp).
inline constexpr std::string_view kInk = "#1b2430", kMutedInk = "#5b6675", kAxisInk = "#8a94a3", kGridInk = "#e3e7ec",
                                  kLaneInk = "#eef1f5", kPanelInk = "#f4f6f9", kEdgeInk = "#b8c0cc",
                                  kLimitInk = "#c62f2f";
inline constexpr std::string_view kMuted = "fill=\"#5b6675\"";
// For labels over other things: an edge in the colour of the page.
inline constexpr std::string_view kHalo = "stroke=\"#ffffff\" stroke-width=\"4\" paint-order=\"stroke\"";

// Documents hold most drawings twice, for a large screen and for a telephone: letters are as large on both.
inline constexpr Length kWide = px(1180), kNarrow = px(380);

class Canvas {
 public:
  // `tip`: the tooltip.
  void rectangle(Length x, Length y, Length width, Length height, std::string_view attributes,
                 std::string_view tip = {}) {
    body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}", text_of(x), text_of(y),
                         text_of(width), text_of(height), attributes);
    body_ += tip.empty() ? "/>\n" : "><title>" + escaped(tip) + "</title></rect>\n";
  }
  void line(Length x1, Length y1, Length x2, Length y2, std::string_view attributes) {
    body_ +=
        fmt::format("<path d=\"M{} {}L{} {}\" {}/>\n", text_of(x1), text_of(y1), text_of(x2), text_of(y2), attributes);
  }
  void label(Length x, Length y, std::string_view text, std::string_view attributes) {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" {}>{}</text>\n", text_of(x), text_of(y), attributes, escaped(text));
  }
  // A filled triangle, such as the head of an arrow.
  void triangle(Length x1, Length y1, Length x2, Length y2, Length x3, Length y3, std::string_view attributes) {
    body_ += fmt::format("<path d=\"M{} {}L{} {}L{} {}Z\" {}/>\n", text_of(x1), text_of(y1), text_of(x2), text_of(y2),
                         text_of(x3), text_of(y3), attributes);
  }
  void raw(std::string_view text) { body_ += text; }
  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

// Colours with their names, side by side, and in further lines where one is full; `y`: the base line of the last one.
struct LegendEntry {
  Rgb color;
  std::string name;
};
struct LegendStyle {
  Length side, up, words, gap, line;  // of a square; where words begin; between entries and lines
};
inline constexpr LegendStyle kSmallLegend{px(11), px(10), px(16), px(14), px(18)},
    kLargeLegend{px(16), px(12), px(22), px(18), px(22)};
void legend(Canvas& out, Length left, Length right, Length& y, const std::vector<LegendEntry>& entries,
            const LegendStyle& style = kSmallLegend);

// About as wide as text of this font size is: fonts differ, and this is a wide one.
Length text_width(std::string_view text, Length size);
// Its lines, none wider than `room`: broken at spaces, and a longer word after a mark within it.
std::vector<std::string> wrapped(std::string_view text, Length size, Length room);
// Draws them below each other; `y`: the base line of the first, and afterwards of the last.
void paragraph(Canvas& out, Length x, Length& y, Length room, std::string_view text, Length size,
               std::string_view attributes);
// The middle of a label that is to be at `at` and has to stay between two edges.
Length kept_within(Length at, std::string_view text, Length size, Length left, Length right);

inline std::string svg_document(Length width, Length height, std::string_view title, const Canvas& canvas) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
      "font-family=\"'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif\" fill=\"#1b2430\">\n"
      "<title>{2}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{3}</svg>\n",
      text_of(width), text_of(height), escaped(title), canvas.body());
}

}  // namespace rehearsal::page
