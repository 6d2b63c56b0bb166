// The third form of `validate`: against logs of real runs.
#pragma once
#include <optional>
#include <string>

#include "cli/logged.hpp"

namespace rehearsal::cli {

OptionList log_options(LogOptions& options);

// `scenario`: a file, or empty where each log says its own. Exit status 1 if the mean error is above `tolerance`.
int validate_log(const CommonOptions& common, const LogOptions& options, const std::string& scenario,
                 std::optional<double> tolerance);

}  // namespace rehearsal::cli
