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
  std::optional<Scenario> scenario;  // where it is one, without errors
  bool ok() const { return errors.empty(); }
};

// A scenario, a question of resharding (known by its keys, or by a folder of the name reshard), or a part in a folder
// of the name gpus, clusters, collectives, profiles, framework or zoo. Wrong input is a result here; throws UserError
// only when the house's own folder cannot be found.
Checked check(const std::string& path, const std::vector<std::string>& sets = {}, const Files& files = disk());

// Of `errors` those that name a key which one of `sets` gave and nothing knows: whoever asks for many scenarios and
// goes on where one is wrong does not go on with these, because no scenario was meant by them.
std::vector<Diagnostic> unknown_keys(const std::vector<Diagnostic>& errors, const std::vector<std::string>& sets);

}  // namespace rehearsal::scenario
