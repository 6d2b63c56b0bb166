// Builds the scenario that a user would have written for a published run: printed values, and rules for the rest
// (mapping.hpp). Nothing is chosen by the result.
#pragma once
#include <string>
#include <vector>

#include "published/mapping.hpp"
#include "published/run.hpp"

namespace rehearsal::published {

struct RowScenario {
  std::string yaml;               // a scenario file; empty when the row is not judged
  std::string not_judged;         // the reason
  std::vector<std::string> sets;  // "batch.micro=2": changes from the row's knobs
  std::string not_timed;          // why its time cannot be judged
  std::string peak_rank = {};     // the rank whose peak is printed (mapping.hpp)
  bool fine_tuning = false;       // as the rules say
  // Keys that its source does not tell, nor rules, nor its knobs: recipe.hpp.
  std::vector<std::string> untold = {};
  std::string asks = {};  // the scenario without its name: rows with the same ask the same
};

// How much the scenario says about the framework: everything in the table, only the profile of its generation, or
// nothing (then the defaults decide).
enum class FrameworkDetail : std::uint8_t { knobs, profile, none };

RowScenario scenario_of(const Run& run, const Mapping& mapping, FrameworkDetail detail);

}  // namespace rehearsal::published
