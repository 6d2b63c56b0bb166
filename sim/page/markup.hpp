// Escapes text for SVG and HTML.
#pragma once
#include <string>
#include <string_view>

namespace rehearsal::page {

// For content, and for attributes in double quotes.
inline std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

}  // namespace rehearsal::page
