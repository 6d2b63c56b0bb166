// What commands that perform a plan or a collective by itself share.
#include <fmt/format.h>

#include "base/error.hpp"
#include "cli/performer.hpp"
#include "cli/performing.hpp"
#include "cli/progress.hpp"

namespace rehearsal::cli {

OptionList alone_options(AlonePerforming& o, const std::string& what) {
  return {{"backend", "NAME", fmt::format("perform {}: mpi (processes), or loopback (threads, no bytes move)", what),
           &o.backend},
          {"warmup", "N", fmt::format("times that {} is performed and does not count (default 1)", what), &o.warmup},
          {"iterations", "N", "times that it is measured (default 3)", &o.iterations}};
}

void check(const CommandLine& line, const AlonePerforming& o) {
  for (const char* option : {"warmup", "iterations", "collectives"})
    if (line.has(option) && o.backend.empty())
      throw UserError(fmt::format("--{} belongs to --backend, which performs it", option));
  if (o.backend.empty()) return;
  check_count("--warmup", o.warmup, 0), check_count("--iterations", o.iterations, 1);
}

std::optional<explore::Performed> perform(const AlonePerforming& o, backend::Backend& backend, const lower::Alone& what,
                                          double predicted, std::span<const collective::Execution> executions,
                                          const CommonOptions& common) {
  Progress progress(common, 1, performer().reports(o.backend));
  backend::RunOptions options;
  options.durations = what.durations, options.held = what.held;
  options.collectives = collectives_asked(o.collectives, o.backend, options.compute), options.executions = executions;
  options.warmup = o.warmup, options.iterations = o.iterations;
  const int all = o.warmup + o.iterations;
  progress.begin("iterations", std::uint64_t(all), all * predicted);
  options.progress = [&](int ended) { progress.done(std::uint64_t(ended)); };
  explore::Performed performed{backend.prepare(what.graph)->run(options), {}, {}};
  if (!what.graph.groups().empty()) performed.collectives = explore::collectives(backend.name(), options);
  return performer().reports(o.backend) ? std::optional(std::move(performed)) : std::nullopt;
}

}  // namespace rehearsal::cli
