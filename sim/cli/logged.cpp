#include "cli/logged.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "cli/numbers.hpp"
#include "cli/output_files.hpp"
#include "cli/progress.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::size_t kLargestLog = std::size_t{256} << 20;

interchange::Imported imported_from(const CommonOptions& common, const LogOptions& options, const std::string& file) {
  interchange::Asked asked;
  asked.files = {file}, asked.cluster = options.cluster, asked.sets = common.set;
  asked.world = world_size(options.world);
  auto imported = interchange::import(asked, common.session.files());
  if (!imported.scenario) throw UserError({{{file, 0, 0}, "says what the machine was, and not what it trained"}});
  std::vector<std::string> warnings;
  for (const auto& left : imported.draft.unworded())
    warnings.push_back(fmt::format("{}: no word for {}", interchange::to_text(left.where), left.what));
  for (const auto& [key, given] : imported.draft.keys())
    if (given.origin.basis == interchange::Basis::assumed)
      warnings.push_back(fmt::format("{}: {} is {}", file, key, interchange::to_text(given.origin)));
  warn(common, warnings);
  return imported;
}

struct LogText {
  std::string file, text;
  bool says_run = false;  // what was trained, in a form that import knows
};

LogText text_of(const CommonOptions& common, const std::string& file) {
  const auto& files = common.session.files();
  LogText log{file, interchange::as_utf8(files.read(file, kLargestLog)), false};
  if (log.text.starts_with("\x1f\x8b"))
    throw UserError({{{file, 0, 0}, "is compressed; unpack the log first (gunzip)"}});
  interchange::Sources sources(files);
  try {
    log.says_run = !log.text.empty() && !interchange::formats_of(sources.text(file, log.text)).empty();
  } catch (const UserError&) {  // a line of a log may begin like JSON, and be none
  }
  return log;
}

LoggedCase read_log_of(const CommonOptions& common, const LogOptions& options, const LogText& from,
                       const std::string& given) {
  const auto& file = from.file;
  auto log = interchange::read_log(from.text);
  if (!log)
    throw UserError(
        {{{file, 0, 0},
          fmt::format("this log has no line of a step; known are lines of {}", interchange::log_dialects())}});
  if (given.empty() && !from.says_run)
    throw UserError({{{file, 0, 0}, "does not say what the run was; give its scenario before --log or --from"}});
  LoggedCase one{{}, given, nullptr};
  one.run.file = file, one.run.log = std::move(*log);
  std::optional<scenario::Scenario> scenario;
  if (given.empty()) {
    auto imported = imported_from(common, options, file);
    scenario = std::move(imported.scenario);
    one.path = interchange::kImported;
    one.files = std::make_shared<scenario::LaidOver>(
        std::map<std::string, std::string>{{one.path, std::move(imported.yaml)}}, common.session.files());
  } else {
    scenario = scenario::load(given, common.set, {}, common.session.files());
    warn(common, scenario->warnings);
  }
  common.session.go_on();
  one.run.predicted = answer::predict(*scenario);
  const auto& s = one.run.predicted.summary;
  const double samples = scenario->concrete ? double(scenario->batch.global) : 0;
  const double tokens = s.tokens_per_s && s.gpus > 0 ? *s.tokens_per_s * to_seconds(s.iteration) / double(s.gpus) : 0;
  const auto measured = interchange::steady(one.run.log, samples, tokens);
  if (!measured)
    throw UserError({{{file, 0, 0}, "the log says rates alone, and the scenario has no batch to make them times"}});
  one.run.measured = *measured;
  return one;
}

}  // namespace

std::vector<LoggedCase> read_logs(const CommonOptions& common, const LogOptions& options, const std::string& given,
                                  GivenScenario of) {
  auto inputs = options.logs;
  if (!given.empty()) inputs.push_back(given);
  check_outputs(common, {}, inputs);
  std::vector<LogText> texts;
  for (const auto& file : options.logs) texts.push_back(text_of(common, file));
  const auto own = [&](const LogText& log) {
    return given.empty() || (of == GivenScenario::where_none_is_said && log.says_run);
  };
  const auto owning = std::count_if(texts.begin(), texts.end(), own);
  if (owning == 0 && !(options.world.empty() && options.cluster.empty()))
    throw UserError("the scenario says machine and GPUs; leave --cluster and --world out");
  if (of == GivenScenario::where_none_is_said) {
    if (!given.empty() && owning == std::ptrdiff_t(texts.size()))
      throw UserError(fmt::format("{} has no effect: each of these logs says what its run was; leave it out", given));
    if (owning > 0 && options.cluster.empty())
      throw UserError("calibrate --from: --cluster says which machine the logs are of (rehearse list clusters)");
  }
  std::vector<LoggedCase> all;
  Progress progress(common);
  progress.begin("logs", texts.size());
  for (const auto& log : texts) {
    all.push_back(read_log_of(common, options, log, own(log) ? "" : given));
    progress.done(all.size());
  }
  return all;
}

}  // namespace rehearsal::cli
