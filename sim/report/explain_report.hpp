// `explain` for people (text), for programs (JSON, contract section 8) and for tables (CSV).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "explore/advice.hpp"
#include "explore/limits.hpp"
#include "explore/path_words.hpp"
#include "explore/sensitivity.hpp"
#include "page/layout.hpp"

namespace rehearsal::report {

// What was asked for; what was not is absent.
struct Explanation {
  const answer::Result* prediction = nullptr;
  std::optional<std::vector<explore::PathPiece>> path;
  std::optional<std::vector<explore::Limit>> limits;
  std::optional<explore::Sensitivities> sensitivities;
  std::optional<explore::Advised> advised;
};

struct ExplainOptions {
  page::TextStyle style = {};
  std::size_t top = 10;  // changes that are advised
  bool all = false;      // also those that do not fit or make the step longer, and whatever moves it by little
};

std::string explain_text(const Explanation& explanation, const ExplainOptions& options);
std::string explain_json(const Explanation& explanation, const ExplainOptions& options, const std::string& version);
// One table: a line for each piece of the path, limit, number and change, told apart by the first column.
std::string explain_csv(const Explanation& explanation, const ExplainOptions& options);

}  // namespace rehearsal::report
