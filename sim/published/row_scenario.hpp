// From a published run to the scenario that a user would have written for it. Every comparison with published runs goes
// through these rules, which look at what the table prints: nothing is chosen by the result.
#pragma once
#include <string>

#include "published/run.hpp"

namespace rehearsal::published {

struct RowScenario {
  std::string yaml;        // a scenario file; empty when the row is not judged
  std::string not_judged;  // why
};

// `named_software`: write down the framework generation that the row belongs to; otherwise the scenario leaves
// `software` (and what only an expert would know of it) to the defaults.
RowScenario scenario_of(const Run& run, bool named_software);

}  // namespace rehearsal::published
