#include "perform/calibrate_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "base/quantity_text.hpp"
#include "calibrate/machine.hpp"
#include "cli/progress.hpp"
#include "explore/perform.hpp"
#include "launch/launch.hpp"
#include "modules/module.hpp"
#include "page/layout.hpp"
#include "scenario/profile.hpp"

namespace rehearsal::perform {
namespace {

using cli::CommonOptions;
using cli::Format;
using cli::Progress;
using cli::write_file;
using cli::write_stdout;

namespace fs = std::filesystem;

const Time kGrace = seconds(15);  // for NCCL to give up what it was told to

cost::Quantiles quantiles(const gpu::LaunchTime& t) { return {t.p10, t.p50, t.p90}; }

cost::SizeTimes size_times(const std::vector<gpu::SizeTime>& measured) {
  cost::SizeTimes times;
  for (const auto& m : measured) times.samples.push_back({m.size, quantiles(m.time), m.held_out});
  return times;
}

void add_gemms(const gpu::Probe& probe, cost::GpuTimes& times) {
  std::set<Gemm> known;  // forward and input gradient may be one product: the first counts
  for (const auto& k : probe.kernels) {
    if (!is_linear(k.kernel.kind)) continue;
    const Gemm shape = *gemm_of(k.kernel);
    if (known.insert(shape).second)
      times.gemm[shape.precision].samples.push_back({shape, quantiles(k.time), k.held_out});
  }
}

cost::GpuIdentity identity(const gpu::DeviceFacts& device) {
  return {.name = device.name,
          .capability = device.capability,
          .multiprocessors = device.multiprocessors,
          .memory = device.memory,
          .driver = device.driver,
          .runtime = device.runtime};
}

cost::GpuTimes gpu_times(const gpu::Probe& probe) {
  cost::GpuTimes times;
  times.gpu = identity(probe.device);
  times.settled_clock = probe.settled;
  add_gemms(probe, times);
  times.memory_bound = size_times(probe.memory_bound);
  times.device_copy = size_times(probe.device_copy);
  times.host_link = cost::HostLink{.to_device = size_times(probe.to_device),
                                   .to_host = size_times(probe.to_host),
                                   .duplex = probe.duplex,
                                   .copy_beside_gemm = probe.with_host_copy.copy,
                                   .gemm_beside_copy = probe.with_host_copy.gemm};
  if (probe.launch_host) times.launch.host = quantiles(*probe.launch_host);
  if (probe.launch_stream) times.launch.stream = quantiles(*probe.launch_stream);
  if (probe.launch_graph) times.launch.graph = quantiles(*probe.launch_graph);
  for (auto p = probe.partitions.rbegin(); p != probe.partitions.rend(); ++p)  // ascending multiprocessors
    times.partitions.push_back({p->multiprocessors, *gemm_of(p->kernel), quantiles(p->alone), quantiles(p->busy)});
  return times;
}

// What a rank of virtual stages has of links: copies out of and into buffers, and copies with an event behind them.
void add_virtual_links(const gpu::Probe& probe, cost::Profile& profile) {
  for (std::size_t i = 0; i < probe.message.size(); ++i) {
    const collective::Point copy{probe.device_copy[i].size, probe.device_copy[i].time.p50};
    profile.messages.send.push_back(copy), profile.messages.receive.push_back(copy);
    profile.messages.latency.push_back({probe.message[i].size, probe.message[i].time.p50});
  }
  profile.copy = "within the memory of a GPU";
  for (const auto& r : probe.rings)
    profile.collectives.measured[{r.kind, static_cast<std::uint32_t>(r.members)}].push_back({r.size, r.time.p50});
}

std::string slug(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  while (out.ends_with('-')) out.pop_back();
  return out.empty() ? "gpu" : out;
}

struct Wanted {
  std::vector<Kernel> kernels;
  unsigned ranks = 0;
};
void add_wanted(const std::string& path, const CommonOptions& common, const std::string& backend, Wanted& wanted) {
  const auto what = explore::load_performable(path, common.set, backend::Compute::real, backend);
  const auto question = answer::prepare(what.scenario);
  std::set<Kernel> all(wanted.kernels.begin(), wanted.kernels.end());
  for (const auto& work : question.graph.works())
    if (const auto* k = std::get_if<Kernel>(&work)) all.insert({k->kind, k->dims, {}, k->precision});
  wanted.kernels.assign(all.begin(), all.end());
  const auto ranks = static_cast<unsigned>(what.scenario.parallelism.gpus());
  if (wanted.ranks != 0 && wanted.ranks != ranks)
    throw UserError(fmt::format("calibrate: {} has {} ranks and a scenario before it {}; measure them one by one", path,
                                ranks, wanted.ranks));
  wanted.ranks = ranks;
}

// --- the report

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

struct Section {
  std::string name;
  cost::SampleErrors fitted, held_out;
};

cost::SampleErrors errors(std::vector<double> sizes) {
  if (sizes.empty()) return {};
  std::ranges::sort(sizes);
  const auto n = sizes.size();
  return {std::int64_t(n), sizes[n / 2], sizes[std::min(n - 1, n * 9 / 10)]};
}

// Matrix products of each precision, links, and all other kernels of each precision together.
std::vector<Section> sections(const cost::Profile& p, const std::vector<cost::Judged>& held_out) {
  std::vector<Section> all;
  const auto add = [&](const std::string& name, const cost::FitErrors& e) {
    all.push_back({name, e.fitted, e.held_out});
  };
  if (p.gpu) {
    for (const auto& [precision, gemm] : p.gpu->gemm) add(fmt::format("gemm {}", name(precision)), gemm.fit.error);
    add("memory_bound", p.gpu->memory_bound->fit.error);
    add("device_copy", p.gpu->device_copy->fit.error);
    add("host_link to_device", p.gpu->host_link->to_device.fit.error);
    add("host_link to_host", p.gpu->host_link->to_host.fit.error);
  }
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    std::vector<double> inside, outside;
    for (const auto& [kernel, times] : p.kernels)
      if (kernel.precision == precision)
        for (const auto& s : times.samples)
          inside.push_back(std::abs(times.fit.time(s.kernel) / to_seconds(s.p50) - 1));
    const std::string section = fmt::format("kernels {}", name(precision));
    for (const auto& j : held_out)
      if (j.section == section) outside.push_back(std::abs(j.predicted / j.measured - 1));
    if (!inside.empty()) all.push_back({section, errors(inside), errors(outside)});
  }
  return all;
}

Json json_of(const gpu::LaunchTime& t) { return {to_seconds(t.p10), to_seconds(t.p50), to_seconds(t.p90)}; }
Json json_of(const cost::SampleErrors& e) { return {{"samples", e.samples}, {"median", e.median}, {"p90", e.p90}}; }

Json report_json(const cost::Profile& p, const gpu::Probe& probe, const std::vector<Section>& judged,
                 const std::string& refusal, const std::string& file) {
  Json accuracy = Json::array(), nccl = Json::array(), pairs = Json::array(), parts = Json::array(),
       rings = Json::array();
  for (const auto& s : judged)
    accuracy.push_back({{"section", s.name}, {"fitted", json_of(s.fitted)}, {"held_out", json_of(s.held_out)}});
  for (const auto& n : probe.nccl)
    nccl.push_back({{"bytes", n.size.count()},
                    {"all_reduce_s", json_of(n.out_of_place)},
                    {"in_place_s", json_of(n.in_place)},
                    {"to_itself_s", json_of(n.to_itself)},
                    {"called_s", json_of(n.called)}});
  for (const auto& r : probe.pairs)
    pairs.push_back({{"rows", r.product.dims[0]},
                     {"width", r.product.dims[1]},
                     {"product_s", json_of(r.first)},
                     {"activation_s", json_of(r.second)},
                     {"both_s", json_of(r.both)}});
  for (const auto& r : probe.partitions)
    parts.push_back({{"parts", r.parts},
                     {"multiprocessors", r.multiprocessors},
                     {"alone_s", json_of(r.alone)},
                     {"busy_s", json_of(r.busy)}});
  for (const auto& r : probe.rings)
    rings.push_back({{"members", r.members},
                     {"kind", static_cast<int>(r.kind)},
                     {"bytes", r.size.count()},
                     {"seconds", json_of(r.time)}});
  Json gpu{{"name", probe.device.name},     {"capability", probe.device.capability},
           {"driver", probe.device.driver}, {"runtime", probe.device.runtime},
           {"parts", probe.parts},          {"multiprocessors", probe.multiprocessors}};
  gpu["libraries"] = Json::object();
  for (const auto& [library, version] : probe.device.libraries) gpu["libraries"][library] = version;
  gpu["type"] = p.gpu ? Json(scenario::gpu_file_of(p.gpu->gpu).name) : Json(nullptr);
  Json json{{"rehearsal", {{"version", program_version()}, {"backend", p.backend}}},
            {"file", file},
            {"digest", p.digest},
            {"date", p.date},
            {"gpu", gpu},
            {"kernels", probe.kernels.size()},
            {"left_out", probe.left_out},
            {"accuracy", accuracy}};
  if (probe.parts == 1)
    json["interference"] = {{"duplex", probe.duplex},
                            {"gemm_beside_host_copy", probe.with_host_copy.gemm},
                            {"host_copy_beside_gemm", probe.with_host_copy.copy},
                            {"gemm_beside_device_copy", probe.with_device_copy.gemm},
                            {"device_copy_beside_gemm", probe.with_device_copy.copy}};
  for (const auto& [key, time] :
       {std::pair{"launch_host_s", &probe.launch_host}, std::pair{"launch_stream_s", &probe.launch_stream},
        std::pair{"launch_graph_s", &probe.launch_graph}, std::pair{"between_tasks_s", &probe.between_tasks},
        std::pair{"between_tasks_graph_s", &probe.between_tasks_graph}})
    if (*time) json[key] = json_of(**time);
  json["partitions"] = parts, json["nccl"] = nccl, json["pairs"] = pairs, json["rings"] = rings;
  json["two_ranks_on_one_gpu"] = refusal;
  return json;
}

std::string report_text(const cost::Profile& p, const gpu::Probe& probe, const std::vector<Section>& judged,
                        const std::string& refusal, const std::string& file) {
  std::string text =
      fmt::format("{}, driver {}, CUDA {}", probe.device.name, probe.device.driver, probe.device.runtime);
  for (const auto& [library, version] : probe.device.libraries) text += fmt::format(", {} {}", library, version);
  if (probe.parts > 1)
    text += fmt::format("\nas {} virtual stages of {} multiprocessors, all busy", probe.parts, probe.multiprocessors);
  text += fmt::format("\n\n{:<22}{:>8}{:>10}{:>10}{:>12}{:>10}{:>10}\n", "errors of the fit", "samples", "median",
                      "p90", "held out", "median", "p90");
  for (const auto& s : judged)
    text +=
        fmt::format("{:<22}{:>8}{:>10}{:>10}{:>12}{:>10}{:>10}\n", s.name, s.fitted.samples, percent(s.fitted.median),
                    percent(s.fitted.p90), s.held_out.samples, percent(s.held_out.median), percent(s.held_out.p90));
  if (probe.launch_host)
    text += fmt::format("\nan empty kernel: {} of the host, {} in a stream, {} in a recording\n",
                        show(probe.launch_host->p50), show(probe.launch_stream->p50), show(probe.launch_graph->p50));
  if (probe.parts == 1)
    text += fmt::format(
        "both directions of the host link at once: {} of the sum of each alone; a product beside a copy to the host "
        "takes {:.2f}\nof its time, the copy {:.2f}; beside a copy within the device {:.2f} and {:.2f}\n",
        percent(probe.duplex), probe.with_host_copy.gemm, probe.with_host_copy.copy, probe.with_device_copy.gemm,
        probe.with_device_copy.copy);
  for (const auto& r : probe.partitions)
    text += fmt::format("{} partitions of {} multiprocessors: a product {} alone, {} with the others busy\n", r.parts,
                        r.multiprocessors, show(r.alone.p50), show(r.busy.p50));
  if (!refusal.empty()) text += fmt::format("two NCCL ranks on this GPU: {}\n", refusal);
  for (const auto& why : probe.left_out) text += fmt::format("not measured: {}\n", why);
  return text + fmt::format("\nprofile {} ({})\n", file, p.digest.substr(0, 12));
}

std::string report_csv(const std::vector<Section>& judged) {
  auto text =
      page::csv_line({"section", "samples", "median", "p90", "held_out_samples", "held_out_median", "held_out_p90"});
  for (const auto& s : judged)
    text += page::csv_line({s.name, fmt::format("{}", s.fitted.samples), fmt::format("{}", s.fitted.median),
                            fmt::format("{}", s.fitted.p90), fmt::format("{}", s.held_out.samples),
                            fmt::format("{}", s.held_out.median), fmt::format("{}", s.held_out.p90)});
  return text;
}

}  // namespace

cost::Profile profile_of(const gpu::Probe& probe, std::vector<cost::Judged>& held_out) {
  cost::Profile profile;
  const auto machine = calibrate::this_machine();
  profile.name = slug(probe.device.name) + (probe.parts > 1 ? fmt::format("-{}-stages", probe.parts) : "");
  profile.backend = "cuda", profile.ranks = static_cast<std::int64_t>(probe.parts);
  profile.cpu = machine.cpu, profile.cores = machine.cores, profile.system = machine.system;
  profile.compiler = machine.compiler, profile.date = calibrate::utc_now();
  profile.priority = "ordinary";
  for (const auto& [library, version] : probe.device.libraries) profile.libraries[library] = version;
  profile.summary = fmt::format(
      "{}{}, driver {}, {}", probe.device.name,
      probe.parts > 1 ? fmt::format(" as {} virtual stages of {} multiprocessors", probe.parts, probe.multiprocessors)
                      : "",
      probe.device.driver, profile.date);
  // Matrix products of a whole GPU have a model of their own; those of a part are kernels like the others.
  const auto is_kernel = [&](const gpu::KernelTime& k) { return probe.parts > 1 || !is_linear(k.kernel.kind); };
  const auto known = [](Precision p) { return p == Precision::fp32 || p == Precision::bf16; };  // of profiles
  std::vector<cost::KernelSample> samples;
  for (const auto& k : probe.kernels)
    if (is_kernel(k) && known(k.kernel.precision) && !k.held_out)
      samples.push_back({k.kernel, k.time.p10, k.time.p50, k.time.p90});
  profile.kernels = cost::fit_kernels(std::move(samples));
  for (const auto& k : probe.kernels) {
    if (!is_kernel(k) || !k.held_out) continue;
    if (const auto priced = profile.time(k.kernel); priced && !priced->exact)
      held_out.push_back({fmt::format("kernels {}", name(k.kernel.precision)), name(k.kernel.kind), priced->time,
                          to_seconds(k.time.p50), true});
  }
  if (probe.between_tasks) profile.between_tasks = quantiles(*probe.between_tasks);
  if (probe.parts > 1) {
    add_virtual_links(probe, profile);
  } else {
    profile.gpu = gpu_times(probe);
    cost::fit_gpu(*profile.gpu, scenario::gpu_file_of(profile.gpu->gpu));
  }
  profile.digest = scenario::profile_digest(profile);
  return profile;
}

Refusal refusal(const std::shared_ptr<backend::Backend>& backend, Time patience, Time grace) {
  auto answer = std::make_shared<std::promise<std::string>>();
  auto answered = answer->get_future();
  std::thread([backend, patience, answer] {
    try {
      answer->set_value(dynamic_cast<gpu::Prober&>(*backend).refuse_two_ranks(patience).value_or("accepted"));
    } catch (const std::exception& failure) {
      answer->set_value(failure.what());
    }
  }).detach();
  const auto limit = std::chrono::nanoseconds((patience + grace).count() / 1000);
  if (answered.wait_for(limit) == std::future_status::ready) return {answered.get(), false};
  return {fmt::format("no answer for {}: NCCL hangs", show(patience + grace)), true};
}

int calibrate_gpu(const cli::Calibration& what, const CommonOptions& common) {
  if (launch::in_job(what.backend))
    throw UserError("calibrate: measures one GPU from one process; leave the launcher out (mpirun, srun, torchrun)");
  const std::shared_ptr<backend::Backend> backend =
      modules::load_backend(what.backend);  // whether it can be used is said at once
  auto* const prober = dynamic_cast<gpu::Prober*>(backend.get());
  if (!prober) throw MachineError(fmt::format("backend {} cannot measure its GPU", what.backend));
  Wanted wanted{.kernels = {}, .ranks = what.ranks};
  for (const auto& path : what.scenarios) add_wanted(path, common, what.backend, wanted);
  // Fits start from the file of its type: that there is none is said before minutes of measuring.
  if (wanted.ranks <= 1) scenario::gpu_file_of(identity(prober->gpu_facts()));

  gpu::ProbeOptions options;
  options.quick = what.quick, options.parts = std::max(wanted.ranks, 1u);
  options.budget = seconds(what.quick ? 30 : 150), options.heat = seconds(what.quick ? 0 : 3);
  for (const auto& kernel : wanted.kernels) options.kernels.push_back({kernel});
  if (options.parts == 1 || wanted.kernels.empty())
    for (const auto& k : gpu::kernel_grid(what.quick))
      if (!std::ranges::count(wanted.kernels, k.kernel)) options.kernels.push_back(k);
  std::optional<Progress> line(std::in_place, common, 0);
  options.progress = [&, last = std::string()](const std::string& now, std::size_t done, std::size_t of) mutable {
    if (now != std::exchange(last, now)) line->begin(now, of);
    line->done(done);
  };
  const auto probe = prober->measure_gpu(options);
  line.reset();

  std::vector<cost::Judged> held_out;
  const auto profile = profile_of(probe, held_out);
  std::string file = common.output;
  if (file.empty()) {
    const fs::path folder = fs::path(scenario::disk().home()) / "configs" / "profiles";
    std::error_code failed;
    fs::create_directories(folder, failed);
    file = (folder / (profile.name + ".yaml")).string();
  }
  write_file(common, file, scenario::write_profile(profile));  // before NCCL is asked for what it may hang on
  const Refusal refused = probe.parts > 1 ? Refusal{} : refusal(backend, options.patience, kGrace);
  const auto judged = sections(profile, held_out);
  switch (common.format) {
    case Format::json:
      write_stdout(common, report_json(profile, probe, judged, refused.words, file).dump(2) + "\n");
      break;
    case Format::csv:
      write_stdout(common, report_csv(judged));
      break;
    case Format::text:
      write_stdout(common,
                   page::fit(report_text(profile, probe, judged, refused.words, file), cli::text_style(common).width));
  }
  if (refused.hangs)
    std::_Exit(0);  // all is written; an orderly end would wait for NCCL, or destroy what its thread still uses
  return 0;
}

}  // namespace rehearsal::perform
