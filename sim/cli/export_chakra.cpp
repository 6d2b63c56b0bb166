#include "cli/export_chakra.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "answer/lowered_job.hpp"
#include "base/error.hpp"
#include "cli/progress.hpp"
#include "report/chakra.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::size_t kMostFiles = 4096;

bool says(const std::vector<std::string>& sets, std::string_view key) {
  return std::any_of(sets.begin(), sets.end(), [key](const auto& set) { return set.starts_with(key); });
}

}  // namespace

scenario::Scenario scenario_of_model(const CommonOptions& common, const std::string& path,
                                     const std::vector<std::string>& sets) {
  auto scenario = scenario::load(path, sets, {}, common.session.files());
  warn(common, scenario.warnings);
  if (!scenario.concrete)
    throw UserError(fmt::format("{}: given 'costs' are of no model and no machine, which other tools want", path));
  return scenario;
}

void export_chakra(const CommonOptions& common, const std::string& path) {
  if (common.output.empty() || common.output == "-")
    throw UserError("export --as chakra: --output PREFIX names the files, PREFIX.RANK.et and PREFIX.json");
  // Another simulator wants every rank, and every collective as a task of its own.
  auto sets = common.set;
  if (says(sets, "simulate.symmetry=auto"))
    throw UserError("export --as chakra writes every rank: leave simulate.symmetry=auto out");
  if (!says(sets, "simulate.symmetry=")) sets.push_back("simulate.symmetry=off");
  if (!says(sets, "simulate.detail=")) sets.push_back("simulate.detail=operator");
  const auto scenario = scenario_of_model(common, path, sets);
  if (scenario.data_parallel.served())
    throw UserError(
        fmt::format("{}: workers and parameter servers have messages of several iterations on their way at "
                    "once, for which traces have no word",
                    path));
  if (scenario.optimizer_sync.post_validation)
    throw UserError(
        fmt::format("{}: with post-validation an iteration ends in the next one, and a trace is of one", path));
  Progress progress(common, 2);
  progress.begin("the graph of every rank");
  const auto job = answer::prepare(scenario, nullptr, false);
  const auto ranks = job.graph.ranks().size();
  if (ranks > kMostFiles)
    throw UserError(
        fmt::format("export --as chakra: {} ranks would be as many files; at most {} are written", ranks, kMostFiles));
  progress.begin("ranks", ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    write_streamed(common, fmt::format("{}.{}.et", common.output, job.graph.ranks()[r].job_rank),
                   [&](const auto& sink) { report::write_chakra(job, r, sink); });
    progress.done(r + 1);
  }
  write_file(common, common.output + ".json", report::chakra_groups(job));
}

}  // namespace rehearsal::cli
