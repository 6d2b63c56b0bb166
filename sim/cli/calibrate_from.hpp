// The second form of `calibrate`: from what users have measured themselves.
#pragma once
#include <string>

#include "cli/logged.hpp"

namespace rehearsal::cli {

// Fits factors of the machine to the steps of logs, and writes a cluster file with them: `cluster: {use: ./FILE.yaml}`.
int calibrate_from(const CommonOptions& common, const LogOptions& from, const std::string& scenario);

}  // namespace rehearsal::cli
