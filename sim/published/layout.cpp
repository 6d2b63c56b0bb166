#include "published/layout.hpp"

#include <algorithm>
#include <cctype>
#include <string>

namespace rehearsal::published {
namespace {

constexpr std::size_t kLongest = 100'000;  // letters of a layout that is written out

// The letters of `text` from `at` to its end, or behind the parenthesis that closes what is open there.
std::optional<std::string> written_out(std::string_view text, std::size_t& at, bool inside) {
  std::string all;
  while (at < text.size()) {
    const char c = text[at++];
    if (c == ')') return inside ? std::optional(all) : std::nullopt;
    if (c == ',') continue;
    std::string piece(1, c);
    if (c == '(') {
      const auto group = written_out(text, at, true);
      if (!group) return std::nullopt;
      piece = *group;
    } else if (std::string_view("EtmL|").find(c) == std::string_view::npos) {
      return std::nullopt;
    }
    std::size_t times = 1;
    if (at < text.size() && text[at] == '*') {
      times = 0;
      const auto begin = ++at;
      for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at)
        times = std::min(times * 10 + std::size_t(text[at] - '0'), kLongest + 1);
      if (at == begin) return std::nullopt;
    }
    if (all.size() + times * piece.size() > kLongest) return std::nullopt;
    for (std::size_t i = 0; i < times; ++i) all += piece;
  }
  return inside ? std::nullopt : std::optional(all);
}

}  // namespace

std::optional<std::vector<std::int64_t>> layers_of_layout(std::string_view text) {
  std::size_t at = 0;
  auto letters = written_out(text, at, false);
  if (!letters || letters->find('t') == std::string::npos) return std::nullopt;
  if (letters->back() == '|') letters->pop_back();
  std::vector<std::int64_t> layers(1);
  for (const char c : *letters) {
    if (c == '|') layers.push_back(0);
    if (c == 't') ++layers.back();
  }
  return layers;
}

}  // namespace rehearsal::published
