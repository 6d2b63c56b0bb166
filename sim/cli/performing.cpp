#include "cli/performing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <variant>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cli/performer.hpp"
#include "cli/progress.hpp"

namespace rehearsal::cli {
namespace {

// Whoever validates times that were measured of something else should know.
void warn_of_other_curves(Performing& performing) {
  auto& scenario = performing.what.scenario;
  const auto how = explore::collectives(performing.backend->name(), performing.options);
  if (!how || !scenario.concrete || !scenario.concrete->profile) return;
  const auto& profile = *scenario.concrete->profile;
  const auto& works = performing.predicted.graph().works();
  const bool any = std::any_of(works.begin(), works.end(),
                               [](const auto& work) { return std::holds_alternative<graph::Collective>(work); });
  const auto measured = profile.own_collectives ? backend::Collectives::own : backend::Collectives::library;
  if (any && profile.has_collectives() && profile.backend == performing.backend->name() && measured != *how)
    performing.predicted.warnings.push_back(fmt::format(
        "collectives of the profile {} were measured as --collectives {} performs them, and {} is performed: "
        "say so, or calibrate again",
        profile.name, name(measured), name(*how)));
}

}  // namespace

void check_count(const char* option, int value, int least) {
  constexpr int kMost = 100'000;
  if (value < least || value > kMost)
    throw UserError(fmt::format("{} must be a whole number from {} to {}, found {}", option, least, kMost, value));
}

Time timeout_of(const std::string& text) {
  Time timeout;
  try {
    timeout = parse_time(text);
  } catch (const UserError& error) {
    throw UserError(fmt::format("--timeout: {}", error.what()));
  }
  if (timeout <= Time{}) throw UserError("--timeout must be longer than nothing, for example 60s");
  return timeout;
}

std::unique_ptr<backend::Backend> open_backend(const std::string& backend, const std::string& command,
                                               const Arguments& arguments) {
  Arguments whole{command};
  whole.insert(whole.end(), arguments.begin(), arguments.end());
  return performer().open(backend, whole);
}

OptionList performing_options(PerformingOptions& o) {
  return {
      {"backend", "NAME", "what performs: loopback (threads), mpi (processes) or cuda (GPUs)", &o.backend},
      {"compute",
       "HOW",
       "real: kernels compute; timed: tasks wait out their predicted time\n"
       "(default: real for scenarios with a model)",
       &o.compute,
       false,
       {"real", "timed"}},
      {"collectives",
       "HOW",
       "own: the steps of the algorithms that were predicted; library: as MPI or NCCL\n"
       "performs them (default: own, with cuda library)",
       &o.collectives,
       false,
       {"own", "library"}},
      {"warmup", "N", "iterations that do not count (default 3)", &o.run.warmup},
      {"iterations", "N", "iterations that are measured (default 10)", &o.run.iterations},
      {"timeout", "TIME", "give up when nothing has moved for this long (default 60s)", &o.timeout},
      {"tier-directory", "DIR",
       "loopback, mpi: folder for what training.offload keeps on disks (default: $TMPDIR, else /tmp)",
       &o.run.tier_directory},
      {"replay", "", "cuda: record an iteration as a graph and replay it, so that the host does not affect the times",
       &o.run.recorded},
      {"observe", "", "cuda: run one more iteration at the end, under the device's profiler (CUPTI)", &o.run.observed},
      {"timeline", "FILE", "write every span of the median iteration, in our own JSON\n(sim/design/timeline-json.md)",
       &o.timeline},
      {"trace", "FILE", "write a trace for ui.perfetto.dev, compressed if the name ends in .gz", &o.trace}};
}

backend::Collectives collectives_asked(const std::string& option, const std::string& backend,
                                       backend::Compute compute) {
  if (option.empty()) return explore::usual_collectives(backend);
  backend::RunOptions options;
  options.compute = compute;
  if (!explore::collectives(backend, options))
    throw UserError(
        "--collectives has no effect on timed tasks of one process: no bytes move, and collectives take their "
        "predicted time; use --backend mpi, or --compute real");
  return option == "own" ? backend::Collectives::own : backend::Collectives::library;
}

Performing begin_performing(const std::string& name, const Arguments& arguments, const std::string& scenario,
                            const CommonOptions& common, const PerformingOptions& o) {
  if (o.backend.empty())
    throw UserError(
        fmt::format("{}: say who performs, for example --backend loopback; 'rehearse list backends' shows "
                    "what this machine has",
                    name));
  Performing performing;
  auto& run = performing.options = o.run;
  std::optional<backend::Compute> compute;
  if (!o.compute.empty()) compute = o.compute == "real" ? backend::Compute::real : backend::Compute::timed;
  check_count("--warmup", run.warmup, 0), check_count("--iterations", run.iterations, 1);
  run.timeout = timeout_of(o.timeout);

  performing.what = explore::load_performable(scenario, common.set, compute, o.backend, common.session.files());
  run.compute = performing.what.compute;
  run.collectives = collectives_asked(o.collectives, o.backend, run.compute);
  performing.backend = open_backend(o.backend, name, arguments);
  {
    Progress progress(common, 1, performer().reports(o.backend));
    progress.begin("predicting");
    performing.predicted = answer::predict(performing.what.scenario);
  }
  const bool gpu = performing.backend->devices() > 0;
  if (!run.tier_directory.empty() && run.compute != backend::Compute::real)
    throw UserError("--tier-directory needs --compute real: timed tasks keep nothing");
  if (run.recorded && !gpu) throw UserError("--replay is for --backend cuda: others record nothing");
  if (run.observed && !gpu) throw UserError("--observe is for --backend cuda: others have no profiler");
  warn_of_other_curves(performing);
  // A GPU's own allocator reports insufficient memory.
  if (run.compute == backend::Compute::real && !gpu) explore::require_memory(performing.predicted);
  return performing;
}

namespace {

// Whether it is this machine that was predicted.
bool of_this_machine(const Performing& p) {
  return p.options.compute == backend::Compute::timed || p.what.scenario.concrete->cluster.name == "this-machine";
}

}  // namespace

HostLinks host_links(const std::string& backend) {
  return backend == "mpi" && performer().reports(backend) ? performer().host_links() : HostLinks();
}

std::vector<answer::Measured::Link> counted(const HostLinks& before, const std::map<std::string, double>& predicted,
                                            int iterations) {
  std::vector<answer::Measured::Link> all;
  if (before.empty()) return all;
  for (const auto& [link, now] : performer().host_links()) {
    const auto said = predicted.find(link);
    const auto begun = before.find(link);
    all.push_back({link, said == predicted.end() ? 0 : said->second,
                   (now.bytes - (begun == before.end() ? 0 : begun->second.bytes)) / iterations});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.counted > b.counted; });
  return all;
}

explore::Performed perform(const Performing& p, const CommonOptions& common) {
  if (p.backend->devices() == 0) performer().refuse_crowding(p.options, p.predicted.graph().ranks().size());
  auto options = p.options;
  options.starts = p.predicted.timeline.start;
  Progress line(common, 1, performer().reports(p.backend->name()));
  const int all = options.warmup + options.iterations;
  const auto each = p.predicted.timeline.makespan();
  if (of_this_machine(p)) {
    line.begin("iterations", std::uint64_t(all), all * to_seconds(each));
    line.note(fmt::format("predicted are {} each", show(each)));
  } else {
    line.begin("iterations", std::uint64_t(all));
    line.note(fmt::format("predicted is {}, not this machine", p.what.scenario.concrete->cluster.name));
  }
  options.progress = [&](int ended) { line.done(std::uint64_t(ended)); };
  const auto before = host_links(p.backend->name());
  auto performed = explore::perform(*p.predicted.lowered, *p.backend, options);
  if (!before.empty()) performed.links = counted(before, answer::link_bytes(*p.predicted.lowered), all);
  return performed;
}

}  // namespace rehearsal::cli
