#include "perform/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "answer/predict.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "calibrate/grid.hpp"
#include "calibrate/kernel_graph.hpp"
#include "calibrate/links.hpp"
#include "calibrate/machine.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "cost/communication.hpp"
#include "dispatch/usage.hpp"
#include "launch/launch.hpp"
#include "page/layout.hpp"
#include "perform/backends.hpp"
#include "perform/calibrate_gpu.hpp"
#include "perform/calibrate_tiers.hpp"
#include "scenario/cluster_file.hpp"
#include "scenario/profile.hpp"
#include "timeline/memory.hpp"

namespace rehearsal::perform {
namespace {

using cli::Arguments;
using cli::AtomicFile;
using cli::Calibration;
using cli::CommonOptions;
using cli::Format;
using cli::Progress;
using cli::write_file;
using cli::write_stdout;

// What a scenario asks to be measured.
struct Wanted {
  std::vector<Kernel> kernels;
  std::set<unsigned> groups;  // sizes
  unsigned ranks = 0;
  Bytes memory;  // of the rank that uses most
};

Wanted wanted_by(const std::string& path, const CommonOptions& common, const std::string& backend) {
  const auto scenario = scenario::load(path, common.set, backend);
  if (!scenario.concrete || !scenario.concrete->framework.native_kernels)
    throw UserError(
        fmt::format("calibrate: {} is not performed by this program's own kernels; set 'framework: native' in it, or "
                    "leave it out",
                    path));
  const auto prediction = answer::predict(scenario, answer::Options::time_alone());
  const auto& graph = prediction.graph();
  Wanted wanted;
  std::set<Kernel> distinct;
  for (const auto& work : graph.works()) {
    if (const auto* kernel = std::get_if<Kernel>(&work)) distinct.insert({kernel->kind, kernel->dims, {}});
    if (const auto* collective = std::get_if<graph::Collective>(&work)) wanted.groups.insert(collective->group.ranks);
  }
  wanted.kernels.assign(distinct.begin(), distinct.end());
  wanted.ranks = static_cast<unsigned>(scenario.parallelism.gpus());
  for (std::size_t r = 0; r < graph.ranks().size(); r++)
    wanted.memory = std::max(wanted.memory, timeline::memory_peak(graph, prediction.timeline, RankId(r)).peak);
  return wanted;
}

// What is measured, the same in every process that takes part.
struct Plan {
  unsigned ranks = 1, computing = 1;  // of them at once: never more than cores
  std::vector<Kernel> by_graph, by_call;
  std::set<unsigned> groups;
  Bytes footprint;
};

Plan make_plan(const Calibration& options, const Wanted& wanted, const calibrate::Machine& machine) {
  Plan plan;
  const auto cores = static_cast<unsigned>(machine.cores);
  plan.ranks = options.ranks ? options.ranks : wanted.ranks ? wanted.ranks : cores;
  plan.computing = std::min(plan.ranks, cores);
  std::set<Kernel> all(wanted.kernels.begin(), wanted.kernels.end());
  for (const auto& kernel : calibrate::kernel_grid(options.quick)) all.insert(kernel);
  for (const auto& kernel : all)
    (calibrate::fits_kernel_graph(kernel.kind) ? plan.by_graph : plan.by_call).push_back(kernel);
  plan.groups = wanted.groups;
  if (!options.quick)
    for (unsigned n = 2; n < plan.ranks; n *= 2) plan.groups.insert(n);
  plan.groups.insert(plan.ranks);
  plan.groups.erase(0), plan.groups.erase(1);
  // OffloadMemory the second cache of a core; what a run uses, but no more than keeps the measurement short.
  plan.footprint = std::clamp(wanted.memory, machine.second_cache * 4, Bytes(256 << 20));
  return plan;
}

std::vector<cost::KernelSample> samples(const std::vector<calibrate::KernelTime>& times) {
  std::vector<cost::KernelSample> all;
  for (const auto& t : times) all.push_back({t.kernel, t.p10, t.p50, t.p90});
  return all;
}

cost::Quantiles quantiles(const calibrate::Spread& s) { return {s.p10, s.p50, s.p90}; }

// Ranks that are processes run this program again, and each job does one thing: `part` says which.
class Measurement {
 public:
  Measurement(const Calibration& options, const Arguments& arguments, Plan plan)
      : options_(options), arguments_(arguments), plan_(std::move(plan)) {}

  // In a rank: its share of the part it was started for.
  void take_part() const {
    if (options_.part == "kernels") {
      const auto measured = calibrate::kernel_graph(plan_.by_graph, plan_.computing, plan_.footprint);
      perform(measured);
    } else {
      probe(static_cast<unsigned>(std::stoul(options_.part)));
    }
  }

  calibrate::TaskTimes kernels() const {
    const auto measured = calibrate::kernel_graph(plan_.by_graph, plan_.computing, plan_.footprint);
    return calibrate::read_kernel_graph(measured, perform(measured));
  }

  dispatch::LinkProbe probe(unsigned ranks) const {
    if (options_.backend == "loopback") return calibrate::probe_loopback(ranks, algorithms());
    const auto backend = open(fmt::format("{}", ranks));
    const auto graph = dispatch::probe_graph(ranks);
    const auto session = backend->prepare(graph);
    auto* prober = dynamic_cast<dispatch::LinkProber*>(session.get());
    if (!prober) throw MachineError(fmt::format("backend {} cannot measure its messages", options_.backend));
    prober->by(algorithms());
    return prober->probe_links();
  }

 private:
  // As scenarios on this machine choose them.
  dispatch::Algorithms algorithms() const {
    if (options_.collectives == backend::Collectives::library) return {};
    auto machine = scenario::load_named_cluster("this-machine").spec;
    machine.nodes = 1;
    return [model = cost::CommunicationModel(machine, {})](CollectiveKind kind, std::size_t ranks, Bytes size) {
      return model.execution({.ranks = static_cast<std::uint32_t>(ranks)}, kind, size);
    };
  }
  std::unique_ptr<backend::Backend> open(const std::string& part) const {
    Arguments again{"calibrate"};
    again.insert(again.end(), arguments_.begin(), arguments_.end());
    if (options_.part.empty()) again.insert(again.end(), {cli::kPart, part});
    return open_backend(options_.backend, again);
  }
  timeline::Timeline perform(const calibrate::KernelGraph& measured) const {
    const auto backend = open("kernels");
    return backend->prepare(measured.graph)->run(calibrate::kernel_graph_options());
  }

  const Calibration& options_;
  const Arguments& arguments_;
  Plan plan_;
};

void add_links(cost::Profile& profile, const dispatch::LinkProbe& probe, bool own) {
  auto& m = profile.messages;
  m = {};  // of the largest group, which comes last
  const auto above_zero = [](Time t) { return std::max(t, picoseconds(1000)); };  // a tick of the clock
  for (const auto& l : probe.links) {
    m.send.push_back({l.size, above_zero(l.post)}), m.receive.push_back({l.size, above_zero(l.take)});
    m.latency.push_back({l.size, above_zero(l.latency)});
  }
  profile.copy = probe.single_copy ? "single copy" : "two copies";
  profile.own_collectives = own;
  for (const auto& c : probe.collectives)
    profile.collectives.measured[{c.kind, static_cast<std::uint32_t>(probe.ranks)}].push_back(
        {c.size, above_zero(c.lasts)});
}

struct Measured {
  cost::Profile profile;
  MeasuredTiers tiers;
};

Measured measure(const Calibration& options, const Arguments& arguments, const Plan& plan,
                 const calibrate::Machine& machine, bool raised, const CommonOptions& common) {
  Progress progress(common, 5 + plan.groups.size());
  const Measurement measurement(options, arguments, plan);
  cost::Profile profile;
  profile.name = "this-machine-" + options.backend;
  profile.backend = options.backend, profile.ranks = plan.computing;
  profile.cpu = machine.cpu, profile.cores = machine.cores, profile.system = machine.system;
  profile.compiler = machine.compiler, profile.date = calibrate::utc_now();
  profile.priority = raised ? "raised" : "ordinary";
  profile.summary = fmt::format("{} of {} cores of {}, {}", plan.computing, machine.cores, machine.cpu, profile.date);

  auto tiers = measure_tiers(options, plan.computing, [&](const std::string& what) { progress.begin(what); });
  profile.tiers = tiers.times;
  progress.begin("timers and noise");
  profile.timer_overshoot = quantiles(calibrate::timer_overshoot(options.quick ? 20 : 100));
  profile.noise = quantiles(calibrate::noise(plan.computing, options.quick ? 100 : 500));
  progress.begin(fmt::format("{} shapes of kernels as tasks of {} ranks", plan.by_graph.size(), plan.computing));
  auto tasks = measurement.kernels();
  profile.between_tasks = quantiles(tasks.between);
  calibrate::Settings settings{.ranks = plan.computing, .footprint = plan.footprint};
  progress.begin("shapes of kernels with data or state", plan.by_call.size());
  settings.progress = [&](std::size_t done) { progress.done(done); };
  auto all = samples(tasks.kernels);
  for (const auto& s : samples(calibrate::time_kernels(plan.by_call, settings))) all.push_back(s);
  profile.kernels = cost::fit_kernels(std::move(all));
  for (const unsigned n : plan.groups) {
    progress.begin(fmt::format("messages and collectives among {} ranks", n));
    add_links(profile, measurement.probe(n), options.collectives == backend::Collectives::own);
  }
  profile.digest = scenario::profile_digest(profile);
  return {std::move(profile), std::move(tiers)};
}

// --- the report
// -------------------------------------------------------------------------------------------------------

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string report_text(const Measured& measured, const std::string& file) {
  const auto& p = measured.profile;
  std::string text =
      fmt::format("{}, {} of {} cores, {} priority, {}\n", p.cpu, p.ranks, p.cores, p.priority, p.system);
  text += fmt::format("\n{:<24}{:>8}{:>12}{:>10}{:>12}\n", "kernel", "shapes", "fit error", "worst", "left out");
  for (const auto& [kind, times] : p.kernels)
    text += fmt::format("{:<24}{:>8}{:>12}{:>10}{:>12}\n", name(kind), times.samples.size(), percent(times.fit.error),
                        percent(times.fit.worst), percent(times.fit.left_out));
  if (p.has_messages()) {
    text += fmt::format("\n{:<24}{:>12}{:>12}{:>12}\n", "message", "o_s", "o_r", "L");
    const auto& m = p.messages;
    for (std::size_t i = 0; i < m.latency.size(); i++)
      text += fmt::format("{:<24}{:>12}{:>12}{:>12}\n", show(m.latency[i].size), show(m.send[i].time),
                          show(m.receive[i].time), show(m.latency[i].time));
  }
  if (p.has_collectives())
    text += fmt::format("\ncollectives by {}\n", p.own_collectives ? "their own steps" : "the transport's library");
  text += tiers_text(measured.tiers);
  text += fmt::format("\nbetween two tasks {}, a sleep of 1 ms is {} late, equal work takes {} to {}\n",
                      show(p.between_tasks->p50), show(p.timer_overshoot->p50), show(p.noise->p10), show(p.noise->p90));
  if (p.noise->p90 / p.noise->p10 > 1.1)
    text += "The machine was disturbed: equal work took more than 10 % longer at times. Repeat when it is idle.\n";
  return text + fmt::format("\nprofile {} ({})\n", file, p.digest.substr(0, 12));
}

Json report_json(const Measured& measured, const std::string& file) {
  const auto& p = measured.profile;
  auto kernels = Json::object();
  for (const auto& [kind, times] : p.kernels)
    kernels[name(kind)] = {{"shapes", times.samples.size()},
                           {"error", {{"median", times.fit.error}, {"worst", times.fit.worst}}},
                           {"left_out", {{"median", times.fit.left_out}, {"worst", times.fit.left_out_worst}}}};
  return {{"rehearsal", {{"version", program_version()}, {"backend", p.backend}}},
          {"file", file},
          {"digest", p.digest},
          {"machine", {{"cpu", p.cpu}, {"cores", p.cores}, {"system", p.system}}},
          {"ranks", p.ranks},
          {"collectives", backend::name(p.own_collectives ? backend::Collectives::own : backend::Collectives::library)},
          {"priority", p.priority},
          {"kernels", kernels},
          {"tiers", tiers_json(measured.tiers)},
          {"between_tasks_s", to_seconds(p.between_tasks->p50)},
          {"timer_overshoot_s", to_seconds(p.timer_overshoot->p50)},
          {"disturbed", p.noise->p90 / p.noise->p10 > 1.1}};
}

std::string report_csv(const cost::Profile& p) {
  auto text = page::csv_line({"kernel", "shapes", "error", "worst", "left_out", "left_out_worst"});
  for (const auto& [kind, times] : p.kernels)
    text += page::csv_line({name(kind), fmt::format("{}", times.samples.size()), fmt::format("{}", times.fit.error),
                            fmt::format("{}", times.fit.worst), fmt::format("{}", times.fit.left_out),
                            fmt::format("{}", times.fit.left_out_worst)});
  return text;
}

}  // namespace

int calibrate(const cli::Calibration& options, const cli::Arguments& arguments, const cli::CommonOptions& common) {
  if (options.backend == "cuda") return calibrate_gpu(options, common);
  if (options.part.empty() && launch::in_job(options.backend))
    throw UserError("calibrate: starts its ranks itself; leave the launcher out (mpirun, srun, torchrun)");

  if (options.part.empty()) open_backend(options.backend, arguments);  // whether it can be used is said at once

  std::string file = common.output;
  if (file.empty()) {
    const auto folder = scenario::disk().profiles();
    if (folder.empty()) throw UserError("calibrate: neither $REHEARSAL_PROFILES nor $HOME is set; give --output FILE");
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed) throw UserError(fmt::format("calibrate: cannot make {}: {}", folder, failed.message()));
    file = scenario::profile_file(options.backend);
    AtomicFile::check(common.session, file, "--output");
  }
  const auto machine = calibrate::this_machine();
  const auto wanted = options.scenarios.empty() ? Wanted{} : wanted_by(options.scenarios[0], common, options.backend);
  const auto plan = make_plan(options, wanted, machine);
  if (!options.part.empty()) return Measurement(options, arguments, plan).take_part(), 0;

  const dispatch::RaisedPriority priority;
  const auto measured = measure(options, arguments, plan, machine, priority.granted(), common);
  write_file(common, file, scenario::write_profile(measured.profile));
  switch (common.format) {
    case Format::json:
      write_stdout(common, report_json(measured, file).dump(2) + "\n");
      break;
    case Format::csv:
      write_stdout(common, report_csv(measured.profile));
      break;
    case Format::text:
      write_stdout(common, page::fit(report_text(measured, file), cli::text_style(common).width));
  }
  return 0;
}

}  // namespace rehearsal::perform
