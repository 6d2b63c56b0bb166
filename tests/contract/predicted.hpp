// A scenario's text with some of its keys set, predicted: for tests that ask what a key does.
#pragma once
#include <cstdlib>
#include <string>
#include <vector>

#include "answer/predict.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::contract {

using Sets = std::vector<std::string>;  // KEY=VALUE

inline Sets with(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

// By the files of this checkout, and by no profile of whoever runs the tests.
inline answer::Prediction predicted(const std::string& text, const Sets& sets) {
  ::setenv("REHEARSAL_HOME", PROJECT_ROOT, 1);
  ::setenv("REHEARSAL_PROFILES", "/nowhere", 1);
  return answer::predict(scenario::load_text(text, "scenario", sets));
}

}  // namespace rehearsal::contract
