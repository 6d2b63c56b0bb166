// The second form of `calibrate`: from what users have measured themselves.
#pragma once
#include <string>

#include "cli/logged.hpp"

namespace rehearsal::cli {

// Of logs: fits factors of the machine to their steps, and writes a cluster file, `cluster: {use: ./FILE.yaml}`. Of
// traces: writes the profile of a GPU.
int calibrate_from(const CommonOptions& common, const LogOptions& from, const std::string& scenario);

}  // namespace rehearsal::cli
