// Logs of real runs with their scenarios: what `validate --log` compares and `calibrate --from` fits to.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "interchange/import.hpp"
#include "interchange/log.hpp"
#include "report/log_report.hpp"

namespace rehearsal::cli {

struct LogOptions {
  std::vector<std::string> logs;
  std::string world, cluster;  // as of `import`, for logs that say what the run was
};

// A log, its prediction, and what reads its scenario again.
struct LoggedCase {
  report::LoggedRun run;
  std::string path;                              // of the scenario
  std::shared_ptr<const scenario::Files> files;  // in which it is; null: those of the session
};

// For which logs a scenario is that somebody gives: all, or those that do not say what the run was.
enum class GivenScenario : std::uint8_t { of_all, where_none_is_said };

// `given`: the scenario's file, or empty where each log says its own. Throws UserError: no step, no scenario, an option
// without effect.
std::vector<LoggedCase> read_logs(const CommonOptions& common, const LogOptions& options, const std::string& given,
                                  GivenScenario of = GivenScenario::of_all);

}  // namespace rehearsal::cli
