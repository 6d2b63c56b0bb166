// What commands that perform a plan or a collective by itself share.
#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "cli/performer.hpp"
#include "cli/performing.hpp"
#include "cli/progress.hpp"
#include "page/page.hpp"

namespace rehearsal::cli {

OptionList alone_options(AlonePerforming& o, const std::string& what) {
  return {{"backend", "NAME", fmt::format("perform {}: mpi (processes), or loopback (threads, no bytes move)", what),
           &o.backend},
          {"warmup", "N", fmt::format("times that {} is performed and does not count (default 1)", what), &o.warmup},
          {"iterations", "N", "times that it is measured (default 3)", &o.iterations},
          {"timeout", "TIME", "give up when nothing has moved for longer than predicted by this (default 60s)",
           &o.timeout}};
}

void check(const CommandLine& line, const AlonePerforming& o) {
  for (const char* option : {"warmup", "iterations", "timeout", "collectives"})
    if (line.has(option) && o.backend.empty())
      throw UserError(fmt::format("--{} belongs to --backend, which performs it", option));
  if (o.backend.empty()) return;
  if (line.has("collectives") && o.backend == "loopback")
    throw UserError(
        "--collectives has no effect on threads of one process: no bytes move, and a collective takes its predicted "
        "time; use --backend mpi");
  check_count("--warmup", o.warmup, 0), check_count("--iterations", o.iterations, 1);
  timeout_of(o.timeout);
}

namespace {

// Whoever measures over hosts that were made of another cluster should know.
void warn_of_other_hosts(const HostLinks& hosts, const HostLinks& predicted, const CommonOptions& common) {
  constexpr double kSame = 0.01;
  for (const auto& [name, said] : predicted) {
    const auto found = hosts.find(name);
    if (found == hosts.end())
      return warn(common, {fmt::format("the prediction is of another cluster than these hosts, which have no link "
                                       "'{}'; name the scenario that they were made of by --cluster",
                                       name)});
    const double rate = found->second.rate;
    if (std::abs(said.rate / rate - 1) > kSame)
      return warn(common, {fmt::format("the prediction is of another cluster than these hosts: {} has {}, and {} here; "
                                       "name the scenario that they were made of by --cluster, with the changes that "
                                       "'rehearse hosts show' lists",
                                       name, page::show_amount(said.rate, page::Unit::rate),
                                       page::show_amount(rate, page::Unit::rate))});
  }
}

}  // namespace

std::optional<explore::Performed> perform(const AlonePerforming& o, backend::Backend& backend, const lower::Alone& what,
                                          double predicted, std::span<const collective::Execution> executions,
                                          const HostLinks& links, const CommonOptions& common) {
  const bool reports = performer().reports(o.backend);
  if (reports && common.format == Format::csv)
    warn(common, {"--format csv has what is planned and nothing that is measured; use text or json"});
  const auto hosts = host_links(o.backend);
  if (!hosts.empty()) warn_of_other_hosts(hosts, links, common);
  Progress progress(common, 1, reports);
  backend::RunOptions options;
  options.timeout = timeout_of(o.timeout);
  options.durations = what.durations, options.held = what.held;
  options.collectives = collectives_asked(o.collectives, o.backend, options.compute), options.executions = executions;
  options.warmup = o.warmup, options.iterations = o.iterations;
  const int all = o.warmup + o.iterations;
  progress.begin("iterations", std::uint64_t(all), all * predicted);
  options.progress = [&](int ended) { progress.done(std::uint64_t(ended)); };
  explore::Performed performed{backend.prepare(what.graph)->run(options), {}, {}};
  if (!what.graph.groups().empty()) performed.collectives = explore::collectives(backend.name(), options);
  std::map<std::string, double> bytes;
  for (const auto& [name, link] : links) bytes[name] = link.bytes;
  performed.links = counted(hosts, bytes, all);
  return reports ? std::optional(std::move(performed)) : std::nullopt;
}

}  // namespace rehearsal::cli
