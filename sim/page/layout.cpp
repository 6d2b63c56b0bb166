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

std::string wrap(std::string_view text, std::size_t width, std::string_view indent) {
  std::string out;
  while (text.size() > width) {
    auto space = text.rfind(' ', width);
    if (space == std::string_view::npos || space == 0) space = text.find(' ');
    if (space == std::string_view::npos) break;
    out += std::string(text.substr(0, space)) + "\n" + std::string(indent);
    text.remove_prefix(space + 1);
  }
  return out + std::string(text);
}

std::string notes(std::string_view heading, std::span<const std::string> entries, int width, const Paint& paint) {
  if (entries.empty()) return "";
  std::string text = "\n" + paint.bold(heading) + "\n";
  for (const auto& entry : entries)
    text += "  - " + wrap(entry, static_cast<std::size_t>(std::max(20, width - 4)), "    ") + "\n";
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
