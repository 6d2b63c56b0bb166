// Reports `explain` as text, as JSON (contract section 8) and as CSV.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "explore/advice.hpp"
#include "explore/limits.hpp"
#include "explore/path_words.hpp"
#include "explore/sensitivity.hpp"
#include "page/layout.hpp"
#include "report/shown.hpp"

namespace rehearsal::report {

// The requested parts; others are absent.
struct Explanation {
  const answer::Result* prediction = nullptr;
  std::optional<std::vector<explore::PathPiece>> path;
  std::optional<std::vector<explore::Limit>> limits;
  std::optional<explore::Sensitivities> sensitivities;
  std::optional<explore::Advised> advised;
  std::vector<const explore::Advice*> chosen = {};  // of `advised`: what to recommend
};

struct ExplainOptions {
  page::TextStyle style = {};
  std::size_t top = 10;  // number of recommended changes
  bool all = false;      // include changes that do not fit or do not gain, and numbers with little effect
};

// Up to the requested number of changes that gain or, if nothing fits now, that fit.
std::vector<const explore::Advice*> advised(const Explanation& explanation, const ExplainOptions& options);

std::string explain_text(const Explanation& explanation, const ExplainOptions& options);
const Shown<Explanation>& explain_answer();
std::string explain_json(const Explanation& explanation);
// One table with a line for each path piece, limit, number and change; the first column gives the kind.
std::string explain_csv(const Explanation& explanation);

}  // namespace rehearsal::report
