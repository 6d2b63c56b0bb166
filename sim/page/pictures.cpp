// Combines the drawings of a page into one SVG document.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "base/spelling.hpp"
#include "page/layout.hpp"
#include "page/page.hpp"

namespace rehearsal::page {
namespace {

struct Sized {
  std::string svg;
  Length width, height;
};

// Parses the size of a document from svg_document.
Sized sized(std::string svg) {
  const auto number = [&](std::string_view attribute) {
    const auto at = svg.find(fmt::format(" {}=\"", attribute));
    INVARIANT(at != std::string::npos, "a picture without a size");
    return Length(std::llround(100 * std::stod(svg.substr(at + attribute.size() + 3))));
  };
  const Length width = number("width"), height = number("height");
  return {std::move(svg), width, height};
}

std::string picture(const Block& block) {
  if (const auto* bars = std::get_if<Bars>(&block.content)) return draw(*bars, block.title);
  if (const auto* scatter = std::get_if<Scatter>(&block.content)) return draw(*scatter, block.title);
  if (const auto* timeline = std::get_if<Timeline>(&block.content)) return draw_svg(timeline->drawing);
  return std::get<Picture>(block.content).svg;
}

}  // namespace

bool is_drawing(const Block& block) {
  return std::holds_alternative<Bars>(block.content) || std::holds_alternative<Scatter>(block.content) ||
         std::holds_alternative<Timeline>(block.content) || std::holds_alternative<Picture>(block.content);
}

std::string svg(const Page& page, const std::string& name) {
  std::vector<const Block*> drawings;
  std::vector<std::string> names;
  std::string missing = "there is nothing to draw";
  for (const auto& section : page.sections)
    for (const auto& block : section.blocks) {
      if (!is_drawing(block)) {
        // The text in place of a missing picture says why it is missing.
        if (const auto* why = std::get_if<Paragraph>(&block.content); why && !block.name.empty()) missing = why->text;
        continue;
      }
      if (block.name.empty()) continue;
      names.push_back(block.name);
      if (name.empty() || block.name == name) drawings.push_back(&block);
    }
  if (drawings.empty())
    throw UserError(name.empty() || names.empty()
                        ? missing
                        : fmt::format("there is no picture '{}' of this{}", name, suggestion(name, names)));
  if (drawings.size() == 1) return picture(*drawings.front());
  Canvas canvas;
  Length y = 0, width = 0;
  for (const auto* block : drawings) {
    auto drawn = sized(picture(*block));
    drawn.svg.insert(drawn.svg.find("<svg ") + 5, fmt::format("y=\"{}\" ", text_of(y)));
    canvas.raw(drawn.svg);
    y += drawn.height;
    width = std::max(width, drawn.width);
  }
  return svg_document(width, y, page.title, canvas);
}

std::string show_amount(double amount, Unit unit) {
  switch (unit) {
    case Unit::seconds:
      return amount == 0 ? "0" : std::abs(amount) < 9e6 ? show(seconds(amount)) : fmt::format("{:.3g} s", amount);
    case Unit::bytes:
      return amount == 0 ? "0" : show(bytes(amount));
    case Unit::share:
      return fmt::format("{:.1f} %", 100 * amount);
    case Unit::change:
      return fmt::format("{:+.2f} %", 100 * amount);
    case Unit::error:
      return fmt::format("{:+.1f} %", 100 * amount);
    case Unit::money:
      return grouped(std::uint64_t(std::llround(std::max(0., amount))));
    case Unit::rate:
      return fmt::format("{:.4g} GB/s", amount / 1e9);
    case Unit::ratio:
      return fmt::format("{:.4f}", amount);
    case Unit::none:
      break;
  }
  return std::abs(amount) >= 1e4 && std::abs(amount) < 1e15 && amount > 0 ? grouped(std::uint64_t(std::llround(amount)))
                                                                          : fmt::format("{:.4g}", amount);
}

Length text_width(std::string_view text, Length size) {
  const auto letters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });  // UTF-8
  return Length(letters) * size * 61 / 100;
}

std::vector<std::string> wrapped(std::string_view text, Length size, Length room) {
  std::vector<std::string> lines(1);
  const auto fits = [&](std::string_view more) {
    return text_width(lines.back(), size) + text_width(more, size) <= room;
  };
  while (!text.empty()) {
    const auto space = std::min(text.find(' '), text.size());
    auto word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (!lines.back().empty() && fits(" " + std::string(word))) {
      lines.back() += ' ';
    } else if (!lines.back().empty()) {
      lines.emplace_back();
    }
    while (!fits(word)) {
      auto cut = std::max<std::size_t>(1, std::size_t(std::max<Length>(0, room) * 100 / (61 * size)));
      if (const auto mark = word.find_last_of("._/,=:-", cut - 1); mark != std::string_view::npos) cut = mark + 1;
      lines.back() += word.substr(0, cut);
      lines.emplace_back();
      word.remove_prefix(std::min(cut, word.size()));
    }
    lines.back() += word;
  }
  return lines;
}

void paragraph(Canvas& out, Length x, Length& y, Length room, std::string_view text, Length size,
               std::string_view attributes) {
  const auto lines = wrapped(text, size, room);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) y += size * 13 / 10;
    out.label(x, y, lines[i], fmt::format("font-size=\"{}\" {}", text_of(size), attributes));
  }
}

Length kept_within(Length at, std::string_view text, Length size, Length left, Length right) {
  const Length half = text_width(text, size) / 2;
  return std::max(left + half, std::min(at, right - half));
}

void legend(Canvas& out, Length left, Length right, Length& y, const std::vector<LegendEntry>& entries,
            const LegendStyle& style) {
  Length at = left;
  for (const auto& [color, name] : entries) {
    const Length width = style.words + text_width(name, px(12)) + style.gap;
    if (at > left && at + width > right) at = left, y += style.line;
    out.rectangle(at, y - style.up, style.side, style.side, fmt::format("fill=\"{}\" rx=\"2\"", color.text()));
    out.label(at + style.words, y, name, "font-size=\"12\"");
    at += width;
  }
}

Rgb series(std::size_t n) {
  static constexpr Rgb kColors[] = {{0, 114, 178}, {230, 159, 0},  {0, 158, 115},   {204, 121, 167},
                                    {213, 94, 0},  {86, 180, 233}, {150, 150, 150}, {190, 178, 40}};
  constexpr std::size_t kCount = std::size(kColors);
  return mix(kColors[n % kCount], kWhite, int(std::min<std::size_t>(600, n / kCount * 300)));
}

}  // namespace rehearsal::page
