// A scenario in the words of another tool, for the commands that write one.
#pragma once
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "scenario/scenario.hpp"

namespace rehearsal::cli {

// The formats that a scenario is written in; others are written of its task graph.
std::vector<std::string> scenario_formats();

// Writes it to --output, and what that tool has no word for to standard error; false: there is such.
bool emit_exported(const CommonOptions& common, const std::string& format, const scenario::Scenario& scenario);

}  // namespace rehearsal::cli
