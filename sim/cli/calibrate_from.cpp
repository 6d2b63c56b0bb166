// rehearse calibrate --from: a cluster file whose factors real runs determine.
#include "cli/calibrate_from.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>

#include "base/error.hpp"
#include "base/program.hpp"
#include "cli/output_files.hpp"
#include "cli/progress.hpp"
#include "explore/fit.hpp"
#include "page/layout.hpp"
#include "scenario/profile.hpp"
#include "traces/gpu_profile.hpp"

namespace rehearsal::cli {
namespace {

// "0.813, 95 %: 0.77 .. 0.86": amounts with units are scaled by their factor in the source's words.
std::string interval(const explore::FittedFactor& factor) {
  return fmt::format("{:+.1f} % of {}; 95 %: {:+.1f} to {:+.1f} %", (factor.change - 1) * 100, factor.was,
                     (factor.change * std::exp(-factor.half) - 1) * 100,
                     (factor.change * std::exp(factor.half) - 1) * 100);
}

std::string cluster_file(const explore::Fit& fit, const scenario::Scenario& scenario,
                         const std::vector<std::string>& logs) {
  const auto names = printable(fmt::format("{}", fmt::join(logs, ", ")));
  const auto to = fmt::format("{} log{} ({})", logs.size(), logs.size() == 1 ? "" : "s", names);
  const auto today = fmt::format("{:%F}", fmt::gmtime(std::time(nullptr)));
  const auto scatter = fit.assumed_scatter
                           ? fmt::format("a scatter of {:.1f} % about the fit is assumed", fit.scatter * 100)
                           : fmt::format("the logs scatter by {:.1f} % about the fit", fit.scatter * 100);
  const auto& cluster = scenario.concrete->cluster;
  interchange::ScenarioDraft draft;
  draft.derive("use", cluster.name, "what all else is taken from");
  for (const auto& factor : fit.factors) {
    if (!factor.known) continue;
    if (factor.key.starts_with("cluster.gpu.")) draft.derive("gpu.use", cluster.gpu.name, "likewise");
    const auto value = Json::read(factor.is);
    draft.derive(factor.key.substr(std::string_view("cluster.").size()),
                 {{"value", value ? *value : Json(factor.is)},
                  {"fitted", true},
                  {"source", fmt::format("fitted on {} to {}: {}; {}", today, to, interval(factor), scatter)}},
                 factor.what);
  }
  return interchange::to_yaml(
      draft,
      fmt::format("# {} as {} found it, by rehearse {} calibrate --from.\n# A scenario uses it with `cluster: {{use: "
                  "./THIS-FILE.yaml}}`.\n",
                  cluster.name, names, program_version()));
}

std::string fit_text(const explore::Fit& fit, const std::vector<explore::MeasuredRun>& runs, int width) {
  page::Table table{{"run", "predicted / measured before", "after"}, {}};
  for (std::size_t i = 0; i < runs.size(); ++i)
    table.rows.push_back(
        {{runs[i].name}, {fmt::format("{:.3f}", fit.before[i])}, {fmt::format("{:.3f}", fit.after[i])}});
  std::string text = page::text(table, {}, width);
  std::vector<std::string> known, open;
  for (const auto& factor : fit.factors)
    if (factor.known)
      known.push_back(fmt::format("{} = {}: {} ({:.0f} % of the time)", factor.key, factor.is, interval(factor),
                                  factor.share * 100));
    else
      open.push_back(fmt::format("{} stays {}: {}", factor.key, factor.was, factor.why));
  if (known.empty()) known.push_back("none: these runs fix no factor within 25 %");
  text += page::notes("What these runs determine", known, width, {}) + page::notes("What they do not", open, width, {});
  text += fmt::format("\nScatter of the runs about the fit: {:.1f} %{}\n", fit.scatter * 100,
                      fit.assumed_scatter ? ", assumed: as many factors as runs" : "");
  return page::fit(text, width);
}

int fit_to_logs(const CommonOptions& common, const LogOptions& from, const std::string& scenario) {
  if (common.format != Format::text) throw UserError("calibrate --from: a cluster file is YAML, without --format");
  const auto logs = read_logs(common, from, scenario, GivenScenario::where_none_is_said);
  std::vector<explore::MeasuredRun> runs;
  std::vector<std::string> names;
  for (const auto& log : logs) {
    const auto& here = log.run.predicted.scenario();
    const auto& first = logs.front().run.predicted.scenario();
    if (!here.concrete)
      throw UserError(log.run.file + ": given 'costs' are of no machine, of which nothing can be fitted");
    if (here.concrete->cluster.name != first.concrete->cluster.name)
      throw UserError(fmt::format("{} ran on {} and {} on {}; fit one machine at a time", logs.front().run.file,
                                  first.concrete->cluster.name, log.run.file, here.concrete->cluster.name));
    runs.push_back({log.run.file,
                    {log.path, log.files ? std::vector<std::string>{} : common.set, &log.run.predicted,
                     log.files ? log.files.get() : &common.session.files()},
                    log.run.measured.seconds});
    names.push_back(log.run.file);
  }
  const auto fit = [&] {
    Progress progress(common);
    progress.begin("fitting the machine");
    return explore::fit_factors(runs);
  }();
  const auto text = fit_text(fit, runs, text_style(common).width);
  if (!common.quiet) common.session.write(Stream::err, text);
  emit_report(common, cluster_file(fit, logs.front().run.predicted.scenario(), names));
  return 0;
}

// The profile is the report; what it leaves out goes where warnings go.
int profile_of_traces(const CommonOptions& common, const std::vector<std::string>& from) {
  if (common.format != Format::text) throw UserError("calibrate --from: a profile is YAML, without --format");
  check_outputs(common, {}, from);
  const auto& files = common.session.files();
  const traces::KernelClasses classes(files);
  std::optional<Progress> progress(std::in_place, common, 2);
  progress->begin("MB of traces");
  const auto all = traces::read(
      from, classes, [&](std::size_t done, std::size_t of) { progress->done(done / kMegabyte, of / kMegabyte); });
  progress->begin("fitting kernels");
  const auto made = traces::gpu_profile(all, classes, files);
  progress.reset();
  if (!common.quiet)
    common.session.write(Stream::err, fmt::format("{}\n  {}\n", made.profile.name, fmt::join(made.notes, "\n  ")));
  emit_report(common, scenario::write_profile(made.profile));
  return 0;
}

bool is_trace(const std::string& file) {
  return file.ends_with(".json") || file.ends_with(".gz") || file.ends_with(".sqlite");
}

}  // namespace

int calibrate_from(const CommonOptions& common, const LogOptions& from, const std::string& scenario) {
  for (auto file = from.logs.begin(); file != from.logs.end(); ++file)
    if (std::find(from.logs.begin(), file, *file) != file)
      throw UserError(fmt::format("calibrate --from: '{}' is named twice, and would count twice", *file));
  const auto traces = std::size_t(std::count_if(from.logs.begin(), from.logs.end(), is_trace));
  if (traces == 0) {
    return fit_to_logs(common, from, scenario);
  }
  if (traces < from.logs.size())
    throw UserError("calibrate --from takes logs or traces (.json, .gz, .sqlite), not both at once");
  if (!(scenario + from.cluster + from.world).empty())
    throw UserError("calibrate --from: traces say their GPU; leave SCENARIO, --cluster and --world out");
  if (!common.set.empty()) throw UserError("calibrate --from: traces need no scenario, so --set has no effect");
  return profile_of_traces(common, from.logs);
}

}  // namespace rehearsal::cli
