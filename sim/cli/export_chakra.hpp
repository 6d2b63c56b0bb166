// `export --as chakra`: the task graph, a file for each rank.
#pragma once
#include <string>

#include "cli/output.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::cli {

// The scenario, with these keys over its own. Throws UserError where it is of given costs.
scenario::Scenario scenario_of_model(const CommonOptions& common, const std::string& path,
                                     const std::vector<std::string>& sets);

// Writes PREFIX.RANK.et for every rank of the scenario, and PREFIX.json with the groups; PREFIX is --output.
void export_chakra(const CommonOptions& common, const std::string& scenario);

}  // namespace rehearsal::cli
