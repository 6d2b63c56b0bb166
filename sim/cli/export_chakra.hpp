// `export --as chakra`: the task graph, a file for each rank.
#pragma once
#include <string>

#include "cli/output.hpp"

namespace rehearsal::cli {

// Writes PREFIX.RANK.et for every rank of the scenario, and PREFIX.json with the groups; PREFIX is --output.
void export_chakra(const CommonOptions& common, const std::string& scenario);

}  // namespace rehearsal::cli
