// The third form of `validate`: against logs of real runs.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/output.hpp"

namespace rehearsal::cli {

struct LogOptions {
  std::vector<std::string> logs;
  std::string world, cluster;  // as of `import`, for logs that say what the run was
  std::optional<double> tolerance;
};

OptionList log_options(LogOptions& options);

// `scenario`: a file, or empty where each log says its own.
int validate_log(const CommonOptions& common, const LogOptions& options, const std::string& scenario);

}  // namespace rehearsal::cli
