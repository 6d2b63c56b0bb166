// A page as text for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

std::string trimmed(std::string line) {
  while (line.ends_with(' ')) line.pop_back();
  return line;
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
        text = trimmed(std::move(text));
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
    return trimmed(std::move(text));
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

std::string sentence(const Fact& fact, const std::function<std::string(const Value&)>& shown) {
  auto text = shown(fact.value);
  for (const auto& value : fact.beside)
    if (!value.text.empty())
      text += (text.empty() || std::string_view(" ,;:)").find(value.text[0]) != std::string::npos ? "" : ", ") +
              shown(value);
  return text;
}

namespace {

std::string content(const Block& block, const TextStyle& style) {
  const Paint paint{style.color};
  std::string text;
  if (const auto* paragraph = std::get_if<Paragraph>(&block.content)) return paragraph->text + "\n";
  if (const auto* list = std::get_if<Entries>(&block.content)) {
    for (const auto& entry : list->entries) text += "  - " + entry + "\n";
  } else if (const auto* facts = std::get_if<Facts>(&block.content)) {
    std::size_t names = 11;
    for (const auto& fact : facts->facts) names = std::max(names, fact.name.size());
    for (const auto& fact : facts->facts) {
      auto said = sentence(fact, [&](const Value& v) { return v.strong ? paint.bold(v.text) : v.text; });
      if (!fact.more.empty()) said = padded(said, 16, true) + " " + paint.dim(fact.more);
      text += trimmed(fmt::format("  {:<{}}  {}", fact.name, names, said)) + "\n";
    }
  } else if (const auto* table = std::get_if<Table>(&block.content)) {
    return page::text(*table, paint, style.width);
  } else if (const auto* bars = std::get_if<Bars>(&block.content)) {
    const int longest = std::clamp(style.width - 44, 10, 40);
    for (const auto& row : bars->rows)
      text +=
          trimmed(fmt::format("  {:<14} {:>12} {:>8}  {}", row.name, show_amount(row.values[0], bars->unit), row.more,
                              std::string(std::size_t(std::lround(row.values[0] / *bars->limit * longest)), '#'))) +
          "\n";
  } else if (const auto* verbatim = std::get_if<Verbatim>(&block.content)) {
    return verbatim->text;
  }
  return text;
}

}  // namespace

std::string text(const Page& page, const TextStyle& style) {
  const Paint paint{style.color};
  const int most = std::max(20, style.width);
  auto text = paint.bold(page.title) + "\n";
  if (!page.subtitle.empty()) text += page.subtitle + "\n";
  for (const auto& section : page.sections)
    for (const auto& block : section.blocks) {
      const auto inside = content(block, style);
      if (inside.empty()) continue;
      text += "\n" + (block.title.empty() ? "" : paint.bold(block.title) + "\n") + inside;
      if (!block.note.empty()) text += paint.dim(wrap("  " + block.note, std::size_t(most), "  ")) + "\n";
    }
  return fit(text, style.width);
}

}  // namespace rehearsal::page
