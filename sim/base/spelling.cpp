#include "base/spelling.hpp"

#include <algorithm>

namespace rehearsal {
namespace {

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours.
std::size_t distance(std::string_view a, std::string_view b) {
  const std::size_t n = a.size(), m = b.size();
  std::vector<std::vector<std::size_t>> d(n + 1, std::vector<std::size_t>(m + 1));
  for (std::size_t i = 0; i <= n; i++) d[i][0] = i;
  for (std::size_t j = 0; j <= m; j++) d[0][j] = j;
  for (std::size_t i = 1; i <= n; i++)
    for (std::size_t j = 1; j <= m; j++) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[n][m];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > 64) return std::nullopt;  // not a slip, and the table above is quadratic
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const auto& c : candidates) {
    // A stem counts as near: `micro_batch` means `micro`, `pipe` means `pipeline`.
    const bool stem = std::min(word.size(), c.size()) >= 3 && (word.starts_with(c) || c.starts_with(word));
    const auto d = stem ? 1 : distance(word, c);
    if (d > std::max<std::size_t>(1, std::max(word.size(), c.size()) / 3)) continue;
    if (!best || d < best_distance) best = c, best_distance = d;
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  if (auto near = nearest(word, candidates)) return "; did you mean '" + *near + "'?";
  std::vector<std::string_view> all;  // a reader may ask for a key more than once
  for (const auto& c : candidates)
    if (std::find(all.begin(), all.end(), c) == all.end()) all.push_back(c);
  if (all.empty() || all.size() > 40) return "";
  std::string text = "; allowed: ";
  for (std::size_t i = 0; i < all.size(); i++) (text += i ? ", " : "") += all[i];
  return text;
}

}  // namespace rehearsal
