// A page as text for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/quantity_text.hpp"
#include "page/grid.hpp"
#include "page/layout.hpp"
#include "page/page.hpp"

namespace rehearsal::page {
namespace {

constexpr std::size_t kColumnGap = 2, kLeastWords = 16, kBelow = 4;

std::string padded(const std::string& cell, std::size_t width, bool left) {
  const std::string space(width - std::min(width, columns(cell)), ' ');
  return left ? cell + space : space + cell;
}

struct Columns {
  std::vector<std::size_t> at;        // indices into the table's columns
  bool wraps = false, below = false;  // the last column has words: wrapped beside the others, or on lines of their own
};

std::size_t width_of(const Columns& some, const std::vector<std::size_t>& width) {
  std::size_t sum = 0;
  for (const auto c : some.at) sum += (sum ? kColumnGap : 0) + width[c];
  return sum;
}

// As many columns side by side as `most` allows; the rest in further tables, each led by the columns that name the
// rows.
std::vector<Columns> folded(const std::vector<std::size_t>& width, const std::vector<bool>& words, std::size_t most) {
  const auto is_words = [&](std::size_t c) { return c < words.size() && words[c]; };
  Columns names{{0}};
  while (is_words(names.at.size() - 1) && is_words(names.at.size())) names.at.push_back(names.at.size());
  if (names.at.size() == width.size() || width_of(names, width) > most / 2) names.at.resize(1);
  std::vector<Columns> all{{}};
  for (std::size_t c = 0; c < width.size(); ++c) {
    auto& now = all.back();
    const std::size_t used = now.at.empty() ? 0 : width_of(now, width) + kColumnGap;
    const bool last = c + 1 == width.size() && is_words(c);
    if (used + width[c] > most && c >= names.at.size()) {
      if (last) {
        (used + kLeastWords <= most ? now.wraps : now.below) = true;
      } else if (now.at.size() > names.at.size()) {
        all.push_back(names);
      }
    }
    all.back().at.push_back(c);
  }
  return all;
}

}  // namespace

std::string text(const Table& table, const Paint& paint, int most) {
  std::vector<std::size_t> width;
  for (const auto& head : table.head) width.push_back(columns(head));
  for (const auto& row : table.rows)
    for (std::size_t c = 0; c < row.size() && c < width.size(); ++c)
      width[c] = std::max(width[c], columns(row[c].text));
  const auto line = [&](const Columns& some, const auto& cell_of) {
    std::string text;
    for (const auto c : some.at) {
      if (c == some.at.back() && some.below) {
        while (text.ends_with(' ')) text.pop_back();
        const std::string margin(kBelow, ' ');
        if (!cell_of(c).empty()) text += "\n" + margin + wrap(cell_of(c), std::size_t(most), margin, kBelow);
        return text;
      }
      if (!text.empty()) text.append(kColumnGap, ' ');
      const bool left = c < table.words.size() && table.words[c];
      const auto begin = columns(text);
      if (c == some.at.back() && some.wraps)
        text += wrap(cell_of(c), std::max(begin + kLeastWords, std::size_t(most)), std::string(begin, ' '), begin);
      else
        text += padded(cell_of(c), width[c], left);
    }
    while (text.ends_with(' ')) text.pop_back();
    return text;
  };
  std::string text;
  for (const auto& some : folded(width, table.words, most > 0 ? std::size_t(most) : SIZE_MAX)) {
    if (!text.empty()) text += "\n";
    if (const auto head = line(some, [&](std::size_t c) { return table.head[c]; }); !head.empty())
      text += paint.dim(head) + "\n";
    for (const auto& row : table.rows)
      text += line(some, [&](std::size_t c) { return c < row.size() ? row[c].text : std::string(); }) + "\n";
  }
  return text;
}

std::string table(const std::vector<std::vector<std::string>>& rows, const Paint& paint, int width,
                  std::vector<bool> words) {
  Table table{rows.front(), {}, std::move(words)};
  for (std::size_t i = 1; i < rows.size(); ++i) {
    auto& cells = table.rows.emplace_back();
    for (const auto& cell : rows[i]) cells.push_back({cell});
  }
  return text(table, paint, width);
}

void elide(Table& table, std::uint32_t most) {
  const auto fold = elided_rows(std::uint32_t(table.rows.size()), most);
  if (!fold.hidden) return;
  const auto first = table.rows.begin() + fold.first;
  table.rows.insert(table.rows.erase(first, first + fold.hidden), {{"..."}});
}

namespace {

std::string text_of(const Drawing& drawing, const TextStyle& style) {
  std::vector<GridSpan> spans;
  for (const auto& box : drawing.boxes) {
    std::uint32_t label = kNoLabel;
    if (!box.label.empty() && box.label.find_first_not_of("0123456789") == std::string::npos)
      label = std::uint32_t(std::stoul(box.label));
    spans.push_back({box.row, box.start, box.end, box.kind, label});
  }
  GridOptions options;
  options.width = style.width, options.color = style.color;
  if (!drawing.row_names.empty()) options.row_name = [&](std::uint32_t row) { return drawing.row_names[row]; };
  return draw_grid(spans, drawing.rows, options);
}

// In place of a picture, the title that it has for screen readers.
std::string title_of(const std::string& svg) {
  const auto from = svg.find("<title>"), to = svg.find("</title>");
  return from == std::string::npos ? "" : "(a picture: " + svg.substr(from + 7, to - from - 7) + ")\n";
}

std::string content(const Block& block, const TextStyle& style, const Paint& paint) {
  struct Visitor {
    const TextStyle& style;
    const Paint& paint;
    std::size_t width() const { return std::size_t(std::max(20, style.width)); }
    std::string operator()(const Paragraph& p) const { return wrap(p.text, width()) + "\n"; }
    std::string operator()(const Entries& list) const {
      std::string text;
      for (const auto& entry : list.entries) text += "  - " + wrap(entry, width(), "    ", 4) + "\n";
      return text;
    }
    std::string operator()(const Facts& facts) const {
      std::size_t longest = 0;
      for (const auto& f : facts.facts) longest = std::max(longest, f.name.size());
      std::string text;
      for (const auto& f : facts.facts)
        text += fmt::format("{:<{}}  {}{}\n", f.name, longest, paint.bold(f.value.text),
                            f.more.empty() ? "" : "  " + paint.dim(f.more));
      return text;
    }
    std::string operator()(const Table& table) const { return page::text(table, paint, style.width); }
    std::string operator()(const Bars& bars) const { return page::text(table_of(bars), paint, style.width); }
    std::string operator()(const Scatter& scatter) const { return page::text(table_of(scatter), paint, style.width); }
    std::string operator()(const Timeline& timeline) const { return text_of(timeline.drawing, style); }
    std::string operator()(const Picture& picture) const { return title_of(picture.svg); }
    std::string operator()(const Verbatim& verbatim) const { return verbatim.text; }
  };
  return std::visit(Visitor{style, paint}, block.content);
}

}  // namespace

std::string text(const Page& page, const TextStyle& style) {
  const Paint paint{style.color};
  auto text = paint.bold(page.title) + "\n";
  if (!page.subtitle.empty()) text += wrap(page.subtitle, std::size_t(std::max(20, style.width))) + "\n";
  for (const auto& section : page.sections) {
    text += "\n" + paint.bold(section.title) + "\n";
    for (const auto& block : section.blocks) {
      if (!block.title.empty()) text += paint.dim(block.title) + "\n";
      text += content(block, style, paint);
      if (!block.note.empty()) text += paint.dim(wrap(block.note, std::size_t(std::max(20, style.width)))) + "\n";
    }
  }
  return text;
}

}  // namespace rehearsal::page
