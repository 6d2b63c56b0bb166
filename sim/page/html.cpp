// A page as one HTML document.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/json.hpp"
#include "page/html_parts.hpp"
#include "page/markup.hpp"
#include "page/page.hpp"

namespace rehearsal::page {
namespace {

std::string identifier(std::string_view title) {
  std::string id;
  for (const char c : title) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      id += char(std::tolower(static_cast<unsigned char>(c)));
    else if (!id.empty() && id.back() != '-')
      id += '-';
  }
  return id;
}

// Keys such as cluster.gpu.power may break after a mark, and not within a word.
std::string breakable(const std::string& text) {
  std::string html;
  for (std::size_t i = 0; i < text.size(); ++i) {
    html += text[i];
    const bool within = i > 0 && i + 1 < text.size() && std::isalpha(static_cast<unsigned char>(text[i - 1])) &&
                        std::isalnum(static_cast<unsigned char>(text[i + 1]));
    if (within && (std::string_view("._=/").find(text[i]) != std::string_view::npos)) html += "<wbr>";
  }
  return html;
}

std::string value(const Value& v) {
  auto text = v.strong ? "<strong>" + escaped(v.text) + "</strong>" : breakable(escaped(v.text));
  if (!v.number) return text;
  const auto where = v.json.empty() ? "" : fmt::format(" data-json=\"{}\"", escaped(v.json));
  return fmt::format("<data value=\"{}\"{}>{}</data>", Json(*v.number).dump(), where, text);
}

// With few rows of many columns, a figure for each row fits a page, and a row for each figure reads better.
Table upright(const Table& table) {
  constexpr std::size_t kMostColumns = 12, kMostRows = 6;
  if (table.head.size() <= kMostColumns || table.rows.size() > kMostRows) return table;
  Table turned{{table.head.front()}, {}, {true}};
  for (const auto& row : table.rows) turned.head.push_back(row.front().text);
  for (std::size_t c = 1; c < table.head.size(); ++c) {
    auto& figure = turned.rows.emplace_back();
    figure.push_back({table.head[c]});
    for (const auto& row : table.rows) figure.push_back(c < row.size() ? row[c] : Value{});
  }
  return turned;
}

std::string html_of(const Table& given) {
  const Table table = upright(given);
  const auto cell = [&](const char* tag, std::size_t column, const std::string& content) {
    const bool words = column < table.words.size() && table.words[column];
    return fmt::format("<{0}{1}>{2}</{0}>", tag, words ? " class=\"words\"" : "", content);
  };
  std::string html = "<div class=\"scrolls\"><table><thead><tr>";
  for (std::size_t c = 0; c < table.head.size(); ++c) html += cell("th", c, breakable(escaped(table.head[c])));
  html += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t c = 0; c < std::max(row.size(), table.head.size()); ++c)
      html += cell("td", c, c < row.size() ? value(row[c]) : "");
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// A drawing and its numbers as a table, for accessibility and for copying.
std::string figure(const std::string& wide, const std::string& narrow, const Table& numbers) {
  auto html = narrow.empty() ? "<figure class=\"drawing\">" + wide + "</figure>\n"
                             : "<figure class=\"drawing wide\">" + wide +
                                   "</figure>\n<figure class=\"drawing narrow\">" + narrow + "</figure>\n";
  if (!numbers.head.empty()) html += "<details><summary>as a table</summary>" + html_of(numbers) + "</details>\n";
  return html;
}

std::string content(const Block& block) {
  std::string html;
  if (const auto* p = std::get_if<Paragraph>(&block.content)) return "<p>" + escaped(p->text) + "</p>\n";
  if (const auto* list = std::get_if<Entries>(&block.content)) {
    for (const auto& entry : list->entries) html += "<li>" + escaped(entry) + "</li>\n";
    return "<ul>\n" + html + "</ul>\n";
  }
  if (const auto* facts = std::get_if<Facts>(&block.content)) {
    for (const auto& f : facts->facts) {
      auto beside = f.beside;  // stands below the value, and does not go on after it
      while (!beside.empty() && beside.front().text.empty()) beside.erase(beside.begin());
      if (!beside.empty()) beside.front().text.erase(0, beside.front().text.find_first_not_of(" ;:"));
      auto more = sentence({"", {}, "", beside}, value);
      more.erase(0, more.find_first_not_of(" ,"));
      if (!f.more.empty()) more += (more.empty() ? "" : "; ") + escaped(f.more);
      if (!more.empty()) more = "<span class=\"more\">" + more + "</span>";
      html += fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", escaped(f.name), value(f.value), more);
    }
    return "<dl class=\"facts\">\n" + html + "</dl>\n";
  }
  if (const auto* table = std::get_if<Table>(&block.content)) return html_of(*table);
  if (const auto* bars = std::get_if<Bars>(&block.content))
    return figure(draw(*bars, ""), draw(*bars, "", kNarrow), table_of(*bars));
  if (const auto* scatter = std::get_if<Scatter>(&block.content))
    return figure(draw(*scatter, ""), draw(*scatter, "", kNarrow), table_of(*scatter));
  if (const auto* drawn = std::get_if<Timeline>(&block.content)) return html_timeline(drawn->drawing, block.title);
  if (const auto* picture = std::get_if<Picture>(&block.content)) return figure(picture->svg, picture->narrow, {});
  return "<div><button class=\"copy\" hidden>copy</button><pre>" + escaped(std::get<Verbatim>(block.content).text) +
         "</pre></div>\n";
}

std::string html_of(const Block& block) {
  auto inside = content(block);
  if (!block.note.empty()) inside += "<p class=\"note\">" + escaped(block.note) + "</p>\n";
  if (block.folded) return fmt::format("<details><summary>{}</summary>\n{}</details>\n", escaped(block.title), inside);
  return (block.title.empty() ? "" : "<h3>" + escaped(block.title) + "</h3>\n") + inside;
}

// Pictures set their inks as attributes, which a style sheet can override.
std::string inks() {
  constexpr std::array<std::pair<std::string_view, const char*>, 7> kInks{{{kMutedInk, "muted"},
                                                                           {kAxisInk, "axis"},
                                                                           {kGridInk, "grid"},
                                                                           {kLaneInk, "lane"},
                                                                           {kPanelInk, "panel"},
                                                                           {kEdgeInk, "edge"},
                                                                           {kLimitInk, "limit"}}};
  std::string css;
  for (const auto& [ink, name] : kInks)
    for (const char* attribute : {"fill", "stroke"})
      css += fmt::format(".drawing svg [{0}=\"{1}\"] {{ {0}: var(--{2}); }}\n", attribute, ink, name);
  return css + fmt::format(".drawing svg [stroke=\"{}\"] {{ stroke: var(--ink); }}\n", kInk) +
         ".drawing svg [stroke=\"#ffffff\"] { stroke: var(--page); }\n";
}

}  // namespace

std::string in_script(std::string json) {
  for (std::size_t at = 0; (at = json.find("</", at)) != std::string::npos; at += 3) json.replace(at, 2, "<\\/");
  return json;
}

std::string html(const Page& page) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{}{}"
      "</style>\n</head>\n<body>\n<header>\n<h1>{}</h1>\n",
      escaped(page.title), kStyle, inks(), escaped(page.title));
  if (!page.subtitle.empty()) html += "<p class=\"subtitle\">" + escaped(page.subtitle) + "</p>\n";
  html += "<nav aria-label=\"sections\">\n";
  for (const auto& section : page.sections)
    html += fmt::format("<a href=\"#{}\">{}</a>\n", identifier(section.title), escaped(section.title));
  if (!page.trace.empty()) html += "<button class=\"trace\" hidden>open in Perfetto</button>\n";
  html += "<button class=\"theme\" hidden>dark</button>\n</nav>\n</header>\n<main>\n";
  for (const auto& section : page.sections) {
    html += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n", identifier(section.title), escaped(section.title));
    for (const auto& block : section.blocks) html += html_of(block);
    html += "</section>\n";
  }
  if (!page.trace.empty())
    html += "<script type=\"application/json\" id=\"trace\">" + in_script(page.trace) + "</script>\n";
  return html + fmt::format("</main>\n<footer><p>{}</p></footer>\n<script>\n{}</script>\n</body>\n</html>\n",
                            escaped(page.made_by), kScript);
}

}  // namespace rehearsal::page
