// Predicts a scenario with some keys set: for tests of what a key does.
#pragma once
#include <cstdlib>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "base/error.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::contract {

using Sets = std::vector<std::string>;  // KEY=VALUE

inline Sets with(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

// Uses the files of this checkout, and no profile of the user who runs the tests.
inline void settle() {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);
}
inline answer::Result predicted(const std::string& text, const Sets& sets) {
  settle();
  return answer::predict(scenario::load_text(text, "scenario", sets));
}
inline answer::Result predicted_file(const std::string& file, const Sets& sets) {  // `file`: below scenarios/
  settle();
  return answer::predict(scenario::load(PROJECT_ROOT "/scenarios/" + file, sets));
}

// The reason for a refusal; empty if the scenario is accepted.
inline std::string refusal(const std::string& text, const Sets& sets) {
  try {
    predicted(text, sets);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}
inline bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Bytes that a rank holds at its peak.
inline double held(const answer::RankSummary& rank, graph::MemoryCategory category) {
  return double(rank.memory[static_cast<std::size_t>(category)].count());
}

}  // namespace rehearsal::contract
