#include "scenario/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace rehearsal::scenario {

std::vector<Diagnostic> Diagnostics::errors() const {
  std::map<std::string, std::size_t> rank;
  for (const auto& e : errors_) rank.emplace(e.where.file, rank.size());
  auto sorted = errors_;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Diagnostic& a, const Diagnostic& b) {
    return std::tuple(rank[a.where.file], a.where.line, a.where.column) <
           std::tuple(rank[b.where.file], b.where.line, b.where.column);
  });
  constexpr std::size_t kShown = 50;
  if (sorted.size() > kShown) {
    const auto rest = sorted.size() - kShown;
    sorted.resize(kShown);
    sorted.push_back({{sorted.front().where.file, 0, 0}, fmt::format("and {} more errors", rest)});
  }
  return sorted;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  const bool cut = text.size() > kLongest;
  auto shown = text.substr(0, kLongest);
  // Never end within a UTF-8 sequence: drop its continuation bytes (10xxxxxx) and its lead byte.
  if (cut) {
    while (!shown.empty() && (static_cast<unsigned char>(shown.back()) & 0xC0) == 0x80) shown.remove_suffix(1);
    if (!shown.empty() && (static_cast<unsigned char>(shown.back()) & 0x80)) shown.remove_suffix(1);
  }
  return "'" + printable(shown) + (cut ? "...'" : "'");
}

}  // namespace rehearsal::scenario
