// rehearse validate --log: a training log as the scenario and the truth in one.
#include "cli/validate_log.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/numbers.hpp"
#include "interchange/import.hpp"
#include "report/log_report.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::size_t kLargestLog = std::size_t{256} << 20;
constexpr std::int64_t kMostGpus = 10'000'000;

// What the run was: the scenario that is given, or the one that the log begins with.
scenario::Scenario scenario_of(const CommonOptions& common, const LogOptions& options, const std::string& file,
                               const std::string& given) {
  if (!given.empty()) {
    auto scenario = scenario::load(given, common.set, {}, common.session.files());
    warn(common, scenario.warnings);
    return scenario;
  }
  interchange::Asked asked;
  asked.files = {file}, asked.cluster = options.cluster, asked.sets = common.set;
  if (!options.world.empty()) asked.world = std::int64_t(cli::whole_number("--world", options.world, 1, kMostGpus));
  try {
    auto imported = interchange::import(asked, common.session.files());
    std::vector<std::string> warnings;
    for (const auto& left : imported.draft.unworded())
      warnings.push_back(fmt::format("{}: no word for {}", interchange::to_text(left.where), left.what));
    for (const auto& [key, given_key] : imported.draft.keys())
      if (given_key.origin.basis == interchange::Basis::assumed)
        warnings.push_back(fmt::format("{}: {} is {}", file, key, interchange::to_text(given_key.origin)));
    warn(common, warnings);
    return std::move(*imported.scenario);
  } catch (const UserError& error) {
    auto diagnostics = error.diagnostics();
    if (diagnostics.empty()) diagnostics.push_back({{file, 0, 0}, error.what()});
    diagnostics.push_back({{file, 0, 0},
                           "where a log does not say what the run was, give the scenario: rehearse validate SCENARIO "
                           "--log " +
                               file});
    throw UserError(std::move(diagnostics));
  }
}

}  // namespace

OptionList log_options(LogOptions& options) {
  return {{"log", "FILE...", "logs of real runs (" + interchange::log_dialects() + ")", &options.logs, true},
          {"cluster", "NAME", "of --log without SCENARIO: the machine", &options.cluster},
          {"world", "N", "of --log without SCENARIO: GPUs, where the log does not say it", &options.world}};
}

int validate_log(const CommonOptions& common, const LogOptions& options, const std::string& scenario) {
  if (!scenario.empty() && !(options.world.empty() && options.cluster.empty()))
    throw UserError("validate --log: the scenario says machine and GPUs; leave --cluster and --world out");
  report::LoggedRuns all;
  for (const auto& file : options.logs) {
    const auto text = common.session.files().read(file, kLargestLog);
    auto log = interchange::read_log(text);
    if (!log)
      throw UserError(
          {{{file, 0, 0}, fmt::format("no step is in this log; lines of {} are known", interchange::log_dialects())}});
    const auto asked = scenario_of(common, options, file, scenario);
    common.session.go_on();
    auto predicted = answer::predict(asked);
    const double samples = asked.concrete ? double(asked.batch.global) : 0;
    const double tokens =
        predicted.summary.tokens_per_s && predicted.summary.gpus > 0
            ? *predicted.summary.tokens_per_s * to_seconds(predicted.summary.iteration) / double(predicted.summary.gpus)
            : 0;
    const auto measured = interchange::steady(*log, samples, tokens);
    if (!measured)
      throw UserError({{{file, 0, 0}, "the log says rates alone, and the scenario has no batch to make them times"}});
    all.runs.push_back({file, std::move(*log), *measured, std::move(predicted)});
  }
  emit_report(common, {.text = [&] { return report::logged_text(all, text_style(common)); },
                       .json = [&] { return report::logged_json(all); },
                       .csv = [&] { return report::logged_csv(all); }});
  return options.tolerance && all.mean_error() > *options.tolerance ? 1 : 0;
}

}  // namespace rehearsal::cli
