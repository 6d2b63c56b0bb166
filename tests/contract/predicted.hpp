// A scenario with some of its keys set, predicted, and what it says: for tests that ask what a key does.
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

// By the files of this checkout, and by no profile of whoever runs the tests.
inline void settle() {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);
}
inline answer::Result predicted(const std::string& text, const Sets& sets) {
  settle();
  return answer::predict(scenario::load_text(text, "scenario", sets));
}
inline answer::Result predicted_file(const std::string& file, const Sets& sets) {  // of scenarios/
  settle();
  return answer::predict(scenario::load(PROJECT_ROOT "/scenarios/" + file, sets));
}

// Why it is refused; empty where it is not.
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
