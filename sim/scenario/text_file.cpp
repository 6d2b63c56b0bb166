// Checks that a file is text, and finds the first byte that is not.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "scenario/document.hpp"

namespace rehearsal::scenario {
namespace {

// Offset of the first byte that is not UTF-8 (RFC 3629) or is NUL.
std::optional<std::size_t> first_bad_byte(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char c = byte(i);
    if (c == 0) return i;
    if (c < 0x80) {
      i++;
      continue;
    }
    const std::size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4 || i + length > text.size()) return i;
    for (std::size_t k = 1; k < length; k++)
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    // Overlong forms, surrogates, and code points above U+10FFFF.
    if ((c == 0xE0 && byte(i + 1) < 0xA0) || (c == 0xED && byte(i + 1) > 0x9F) || (c == 0xF0 && byte(i + 1) < 0x90) ||
        (c == 0xF4 && byte(i + 1) > 0x8F))
      return i;
    i += length;
  }
  return std::nullopt;
}

}  // namespace

std::string read_text_file(const std::string& path, std::size_t limit, const Files& files) {
  auto text = files.read(path, limit);
  if (const auto bad = first_bad_byte(text)) {
    const auto line_start = *bad == 0 ? std::string::npos : text.rfind('\n', *bad - 1);
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*bad), '\n') + 1;
    const auto column = *bad - (line_start == std::string::npos ? 0 : line_start + 1) + 1;
    throw UserError(std::vector{Diagnostic{
        {path, static_cast<int>(line), static_cast<int>(column)},
        fmt::format("not a text file: byte 0x{:02x} is not UTF-8 text", static_cast<unsigned char>(text[*bad]))}});
  }
  return text;
}

}  // namespace rehearsal::scenario
