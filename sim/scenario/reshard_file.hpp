// Files that ask for one resharding (`rehearse reshard`), read as strictly as scenarios are.
#pragma once
#include <string>
#include <vector>

#include "reshard/answer.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {

// Throws UserError with everything that is wrong. `sets` = KEY=VALUE.
reshard::Question load_reshard(const std::string& path, const std::vector<std::string>& sets = {},
                               const Files& files = disk());

}  // namespace rehearsal::scenario
