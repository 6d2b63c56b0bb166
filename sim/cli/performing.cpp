#include "cli/performing.hpp"

#include <fmt/format.h>

#include <chrono>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "base/spelling.hpp"
#include "cli/backends.hpp"
#include "cli/progress.hpp"
#include "launch/launch.hpp"
#include "timeline/memory.hpp"

namespace rehearsal::cli {
namespace {

std::optional<backend::Compute> compute_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "real") return backend::Compute::real;
  if (text == "timed") return backend::Compute::timed;
  throw UserError(fmt::format("--compute is '{}'{}", text, suggestion(text, {"real", "timed"})));
}

void check_count(const char* option, int value, int least) {
  constexpr int kMost = 100'000;
  if (value < least || value > kMost)
    throw UserError(fmt::format("{} must be a whole number from {} to {}, found {}", option, least, kMost, value));
}

}  // namespace

OptionList performing_options(PerformingOptions& o) {
  return {{"backend", "NAME", "who performs: loopback (threads), mpi (processes) or cuda", &o.backend},
          {"compute", "HOW",
           "real: kernels compute; timed: tasks wait out their predicted time\n"
           "(default: real for scenarios with a model)",
           &o.compute},
          {"warmup", "N", "iterations that do not count (default 3)", &o.warmup},
          {"iterations", "N", "iterations that are measured (default 10)", &o.iterations},
          {"timeout", "TIME", "give up when nothing has moved for this long (default 60s)", &o.timeout},
          {"replay", "",
           "cuda: record an iteration as a graph and replay it, so that the host has no part in the times", &o.replay},
          {"timeline", "FILE",
           "write every span of the median iteration, in our own JSON\n(sim/design/timeline-json.md)", &o.timeline},
          {"trace", "FILE", "write a trace for ui.perfetto.dev; a name ending in .gz is compressed", &o.trace}};
}

Performing begin_performing(const std::string& name, const Arguments& arguments, const std::string& scenario,
                            const CommonOptions& common, const PerformingOptions& o) {
  if (o.backend.empty())
    throw UserError(
        fmt::format("{}: say who performs, for example --backend loopback; 'rehearse list backends' shows "
                    "what this machine has",
                    name));
  Performing performing;
  auto& run = performing.options;
  const auto compute = compute_of(o.compute);
  check_count("--warmup", o.warmup, 0), check_count("--iterations", o.iterations, 1);
  run.warmup = o.warmup, run.iterations = o.iterations;
  try {
    run.timeout = parse_time(o.timeout);
  } catch (const UserError& error) {
    throw UserError(fmt::format("--timeout: {}", error.what()));
  }
  if (run.timeout <= Time{}) throw UserError("--timeout must be longer than nothing, for example 60s");
  for (const auto& path : {o.timeline, o.trace})
    if (!path.empty()) AtomicFile::check(path);

  performing.what = explore::load_performable(scenario, common.set, compute, o.backend);
  run.compute = performing.what.compute;
  Arguments whole{name};  // a rank that is a process runs the same command line
  whole.insert(whole.end(), arguments.begin(), arguments.end());
  performing.backend = open_backend(o.backend, whole);
  performing.rehearsed = explore::rehearse(performing.what.scenario);
  run.recorded = o.replay;
  const bool gpu = performing.backend->devices() > 0;
  if (o.replay && !gpu) throw UserError("--replay is for --backend cuda: others record nothing");
  // A GPU's own allocator says when its memory does not suffice.
  if (run.compute == backend::Compute::real && !gpu) explore::require_memory(performing.rehearsed);
  return performing;
}

namespace {

// What is known of the length of the run before its first iteration has ended.
std::string expectation(const Performing& p, int iterations) {
  const auto& scenario = p.what.scenario;
  const double each = to_seconds(p.rehearsed.timeline.makespan());
  const bool here = p.options.compute == backend::Compute::timed || scenario.concrete->cluster.name == "this-machine";
  if (!here) return fmt::format("predicted is {}, not this machine", scenario.concrete->cluster.name);
  return fmt::format("{} expected, {} each", roughly(each * iterations), show(p.rehearsed.timeline.makespan()));
}

}  // namespace

explore::Performed perform(const Performing& p, const CommonOptions& common) {
  backend::RunOptions how;
  how.compute = p.options.compute, how.times_matter = p.options.times_matter;
  if (p.backend->devices() == 0) launch::refuse_crowding(how, p.rehearsed.prepared.graph.ranks().size());
  auto options = p.options;
  options.starts = p.rehearsed.timeline.start;
  Progress line(common.quiet || !launch::reports(p.backend->name()));
  const int all = options.warmup + options.iterations;
  const std::string expected = expectation(p, all);
  const auto began = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> first;  // when the first iteration was seen to have ended
  options.progress = [&, seen_first = 0](int ended) mutable {
    if (!line.due()) return;
    const auto now = std::chrono::steady_clock::now();
    const auto passed = [now](auto since) { return std::chrono::duration<double>(now - since).count(); };
    if (ended > 0 && !first) first = now, seen_first = ended;
    std::string left = expected;
    if (first && ended > seen_first)
      left = fmt::format("{} left", roughly(passed(*first) / (ended - seen_first) * (all - ended)));
    line.say(fmt::format("{} of {} iterations, {} so far; {}", ended, all, roughly(passed(began)), left));
  };
  options.progress(0);
  return explore::perform(p.what.scenario, p.rehearsed.prepared, *p.backend, options);
}

report::Measured measured(const Performing& p, const timeline::Timeline& timeline) {
  const auto& graph = p.rehearsed.prepared.graph;
  report::Measured m;
  m.iterations = timeline::spread(timeline);
  m.predicted = p.rehearsed.timeline.makespan();
  for (std::size_t r = 0; r < graph.ranks().size(); r++)
    m.predicted_allocated.push_back(timeline::memory_peak(graph, p.rehearsed.timeline, RankId(r)).peak);
  return m;
}

}  // namespace rehearsal::cli
