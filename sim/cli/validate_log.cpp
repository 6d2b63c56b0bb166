// rehearse validate --log: a training log as the scenario and the truth in one.
#include "cli/validate_log.hpp"

namespace rehearsal::cli {

OptionList log_options(LogOptions& options) {
  return {{"log", "FILE...", "logs of real runs (" + interchange::log_dialects() + ")", &options.logs, true},
          {"cluster", "NAME", "with --log and no SCENARIO: the machine", &options.cluster},
          {"world", "N", "with --log and no SCENARIO: number of GPUs, if the log does not say it", &options.world}};
}

int validate_log(const CommonOptions& common, const LogOptions& options, const std::string& scenario,
                 std::optional<double> tolerance) {
  report::LoggedRuns all;
  for (auto& one : read_logs(common, options, scenario)) all.runs.push_back(std::move(one.run));
  emit_report(common, {.text = [&] { return report::logged_text(all, text_style(common)); },
                       .json = [&] { return report::logged_json(all); },
                       .csv = [&] { return report::logged_csv(all); }});
  return tolerance && all.mean_error() > *tolerance ? 1 : 0;
}

}  // namespace rehearsal::cli
