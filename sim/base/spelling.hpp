// "did you mean": the nearest allowed spelling.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal {

// The candidate with the smallest Damerau-Levenshtein distance, if it is near enough to be a slip (a third of its
// length).
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'x'?" or, when nothing is near, "; allowed: a, b, c" (for at most 40 candidates), or nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace rehearsal
