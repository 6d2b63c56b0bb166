// From a published run to the scenario that a user would have written for it: what the table prints, and for the rest
// what rules say (mapping.hpp). Nothing is chosen by the result.
#pragma once
#include <string>
#include <vector>

#include "published/mapping.hpp"
#include "published/run.hpp"

namespace rehearsal::published {

struct RowScenario {
  std::string yaml;               // a scenario file; empty when the row is not judged
  std::string not_judged;         // why
  std::vector<std::string> sets;  // "batch.micro=2": what its knobs change of the file
  std::string not_timed;          // why its time says nothing
  std::string peak_rank = {};     // whose peak it prints (mapping.hpp)
};

// What the scenario says of the framework: everything that the table tells, only the profile of its generation, or
// nothing (then the defaults decide).
enum class FrameworkDetail : std::uint8_t { knobs, profile, none };

RowScenario scenario_of(const Run& run, const Mapping& mapping, FrameworkDetail detail);

}  // namespace rehearsal::published
