#include "page/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rehearsal::page {

std::string Paint::bold(std::string_view text) const {
  return color ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}
std::string Paint::dim(std::string_view text) const {
  return color ? fmt::format("\x1b[2m{}\x1b[0m", text) : std::string(text);
}

std::string grouped(std::uint64_t n) {
  std::string text = std::to_string(n);
  for (std::ptrdiff_t at = std::ptrdiff_t(text.size()) - 3; at > 0; at -= 3) text.insert(std::size_t(at), ",");
  return text;
}

std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b')
      while (i + 1 < text.size() && text[i] != 'm') ++i;  // "\x1b[1m"
    else
      count += (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;  // not inside a character
  }
  return count;
}

std::string wrap(std::string_view text, std::size_t width, std::string_view indent, std::size_t used) {
  std::string out;
  std::size_t line = 0;  // start of the current line of `out`
  bool empty = true;     // no word yet on this line
  for (std::size_t at = 0; at < text.size();) {
    const auto word = std::min(text.find_first_not_of(' ', at), text.size());
    const auto end = std::min(text.find(' ', word), text.size());
    if (!empty && used + columns(std::string_view(out).substr(line)) + columns(text.substr(at, end - at)) > width) {
      out += "\n", line = out.size(), used = 0;
      out += indent, at = word;
    }
    out += text.substr(at, end - at), at = end, empty = false;
  }
  return out;
}

namespace {

// The column where the text of a line begins: after its margin, a dash, and a label that is set off by spaces.
std::size_t text_column(std::string_view line) {
  const auto margin = line.find_first_not_of(' ');
  if (line.substr(margin).starts_with("- ")) return margin + 2;
  const auto gap = line.find("  ", margin);
  const auto text = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  return text == std::string_view::npos || text > 24 ? margin + 2 : columns(line.substr(0, text));
}

}  // namespace

std::string fit(std::string_view text, int width) {
  const auto most = std::size_t(std::max(20, width));
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    out += columns(line) <= most ? std::string(line) : wrap(line, most, std::string(text_column(line), ' '));
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

std::string notes(std::string_view heading, std::span<const std::string> entries, int width, const Paint& paint) {
  if (entries.empty()) return "";
  std::string text = "\n" + paint.bold(heading) + "\n";
  for (const auto& entry : entries)
    text += "  - " + wrap(entry, static_cast<std::size_t>(std::max(20, width)), "    ", 4) + "\n";
  return text;
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); i++) {
    if (i) line += ',';
    if (cells[i].find_first_of(",\"\r\n") == std::string::npos) {
      line += cells[i];
      continue;
    }
    line += '"';
    for (const char c : cells[i]) line += c == '"' ? "\"\"" : std::string(1, c);
    line += '"';
  }
  return line + "\n";
}

}  // namespace rehearsal::page
