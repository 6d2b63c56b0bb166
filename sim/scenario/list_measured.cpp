// Measured GPU constants in profiles, for `rehearse list`, and the GPU type that a measured GPU has.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "cost/measured_gpu.hpp"
#include "scenario/load.hpp"
#include "scenario/profile.hpp"
#include "scenario/profile_parts.hpp"

namespace rehearsal::scenario {
namespace {

std::optional<cluster::Gpu> gpu_type(Context& context, const std::string& name) {
  const Node* node = context.documents.read_text(name, name);
  const auto choice = node ? load_gpu(context, *node) : std::nullopt;
  return choice ? std::optional(choice->gpu) : std::nullopt;
}

// Collects the constants of one profile, each with the date of measurement.
class List {
 public:
  List(const cost::Profile& profile, std::vector<Constant>& all) : profile_(profile), all_(all) {}

  void add(const std::string& key, const std::string& value, const std::string& how = "") {
    auto source = fmt::format("profile {}, measured {}", profile_.name, profile_.date);
    if (!how.empty()) source += ", " + how;
    all_.push_back({"measured." + key, value, source, false});
  }
  void add(const std::string& key, const std::optional<cost::Quantiles>& time) {
    if (time)
      add(key, us(to_seconds(time->p50)),
          fmt::format("{} to {} (p10, p90)", us(to_seconds(time->p10)), us(to_seconds(time->p90))));
  }
  void factor(const std::string& key, double value) {
    if (value > 0) add(key, fmt::format("{:.4g}", value));
  }
  void add(const std::string& key, const cost::SizeTimes& sizes) {
    const auto& fit = sizes.fit;
    add(key + ".bandwidth", fmt::format("{:.5g}GB/s", fit.far_rate().value() / 1e9), fitted(fit.error));
    add(key + ".fixed", us(fit.call));
    if (fit.knee > Bytes()) {
      add(key + ".knee", text_of(fit.knee));
      if (fit.byte > 0) add(key + ".bandwidth_below_knee", fmt::format("{:.5g}GB/s", 1e-9 / fit.byte));
    }
  }

  static std::string us(double s) { return fmt::format("{:.4g}us", s * 1e6); }
  static std::string fitted(const cost::FitErrors& e) {
    auto text = fmt::format("fitted to {} samples", e.fitted.samples);
    if (e.held_out.samples > 0)
      text += fmt::format("; {} held out: median error {:.1f} %, p90 {:.1f} %", e.held_out.samples,
                          100 * e.held_out.median, 100 * e.held_out.p90);
    return text;
  }

 private:
  const cost::Profile& profile_;
  std::vector<Constant>& all_;
};

void add_gemm(List& list, Precision precision, const cost::GemmFit& fit) {
  const auto key = fmt::format("gemm.{}.", name(precision));
  const auto add = [&](const char* what, const std::string& value) {
    if (std::find(fit.kept.begin(), fit.kept.end(), what) == fit.kept.end()) list.add(key + what, value);
  };
  list.add(key + "rate", fmt::format("{:.4g}TFLOP/s", fit.rate.value() / 1e12), List::fitted(fit.error));
  add("gemm_overhead", List::us(to_seconds(fit.overhead)));
  add("tile_overhead", List::us(to_seconds(fit.tile_overhead)));
  add("small_tile_loss", fmt::format("{:.4g}", fit.small_tile_loss));
  add("weight_gradient_rate", fmt::format("{:.4g}", fit.weight_gradient_rate));
}

void add_measured(const cost::Profile& profile, std::vector<Constant>& all) {
  const auto& times = *profile.gpu;
  List list(profile, all);
  for (const auto& [precision, gemm] : times.gemm) add_gemm(list, precision, gemm.fit);
  for (const auto& [kernel, attention] : times.attention)
    list.add(fmt::format("attention.{}.rate", cost::name(kernel)),
             fmt::format("{:.4g}TFLOP/s", attention.rate.value() / 1e12), List::fitted(attention.error));
  if (times.memory_bound) list.add("memory_bound", *times.memory_bound);
  if (const auto& link = times.host_link) {
    list.add("host_link.to_device", link->to_device), list.add("host_link.to_host", link->to_host);
    list.factor("host_link.duplex", link->duplex);
    list.factor("host_link.copy_beside_gemm", link->copy_beside_gemm);
    list.factor("host_link.gemm_beside_copy", link->gemm_beside_copy);
  }
  if (times.device_copy) list.add("device_copy", *times.device_copy);
  list.add("launch.host", times.launch.host);
  list.add("launch.stream", times.launch.stream), list.add("launch.graph", times.launch.graph);
  for (const auto& p : times.partitions)
    list.add(fmt::format("partitions.{}.busy_over_alone", p.multiprocessors),
             fmt::format("{:.4g}", p.busy.p50 / p.alone.p50),
             fmt::format("{} x {} x {} in {}: {} alone", p.shape.m, p.shape.n, p.shape.k, name(p.shape.precision),
                         List::us(to_seconds(p.alone.p50))));
}

}  // namespace

std::vector<Constant> measured_constants(Context& context, const std::string& gpu) {
  std::vector<Constant> all;
  const auto type = gpu_type(context, gpu);
  for (const auto& name : names_in(context, "configs/profiles")) {
    const Node* root = context.documents.read_file(context.home + "/configs/profiles/" + name + ".yaml");
    const auto profile = root ? load_profile(context, *root, name) : std::nullopt;
    if (type && profile && profile->gpu && cost::mismatch(profile->gpu->gpu, *type).empty())
      add_measured(*profile, all);
  }
  return all;
}

cluster::Gpu gpu_file_of(const cost::GpuIdentity& measured, const Files& files) {
  Context context(files);
  const auto names = names_in(context, "configs/gpus");
  for (const auto& name : names) {
    const auto type = gpu_type(context, name);
    if (type && cost::mismatch(measured, *type).empty()) return *type;
  }
  context.problems.throw_if_any();
  throw UserError(fmt::format("no file of configs/gpus describes '{}' with {} multiprocessors; there are {}",
                              measured.name, measured.multiprocessors, fmt::join(names, ", ")));
}

}  // namespace rehearsal::scenario
