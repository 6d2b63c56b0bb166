// Validation without a result: what `rehearse check` prints.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::scenario {

struct Checked {
  std::vector<Diagnostic> errors, warnings;
  std::optional<Scenario> scenario;  // set when the file is a scenario without errors
  bool ok() const { return errors.empty(); }
};

// A scenario, a resharding question (recognised by its keys, or by a folder named reshard), or a part in a folder named
// gpus, clusters, collectives, profiles, framework or zoo. Wrong input is a result here; throws UserError only when the
// program's own data folder cannot be found.
Checked check(const std::string& path, const std::vector<std::string>& sets = {}, const Files& files = disk());

// The errors about a key that one of `sets` gave and that no reader knows. A caller that skips wrong scenarios must
// still stop at these: a misspelt --set is wrong in every scenario.
std::vector<Diagnostic> unknown_keys(const std::vector<Diagnostic>& errors, const std::vector<std::string>& sets);

}  // namespace rehearsal::scenario
