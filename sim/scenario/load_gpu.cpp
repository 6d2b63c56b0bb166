#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "cluster/fields.hpp"
#include "scenario/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

constexpr const char* kGpus = "configs/gpus";

// Whether a.b is given, with a source of its own or one for the whole mapping.
bool gives(const Node& over, std::string_view key) {
  const auto dot = key.find('.');
  const Node* value = over.find(key.substr(0, dot));
  if (value && value->kind == Node::Kind::map && value->find("value")) value = value->find("value");
  return value &&
         (dot == std::string_view::npos || (value->kind == Node::Kind::map && gives(*value, key.substr(dot + 1))));
}

// Whose products a speedup over bf16 is of.
std::optional<Precision> of_precision(std::string_view key) {
  if (key.starts_with("fp8_")) return Precision::fp8;
  if (key.starts_with("fp4_")) return Precision::fp4;
  return {};
}

// A named GPU has measured rates. If its SM count or its memory bandwidth is replaced, the rates that scale with it are
// scaled too unless they are given: each SM keeps its speed, and kernels reach the same share of the memory's peak. The
// same holds for peaks: FP8 and FP4 GEMM speedups, which are relative to bf16, keep their share of the new peak.
void keep_shares(Context& context, const Part& part, const Node& over, cluster::Gpu& gpu, Citations& citations) {
  if (!part.base || !(over.find("sms") || over.find("memory_bandwidth") || over.find("peak"))) return;
  GpuChoice file;
  MapReader map(context.problems, *part.base, "gpu");
  Citations ignored;
  map.cite(ignored, "");
  map.fill(gpu_choice_fields(), &file);
  const double wider = gpu.memory_bandwidth / file.gpu.memory_bandwidth;
  const double larger = double(gpu.sms) / double(file.gpu.sms);
  for (const auto& field : cluster::gpu_fields().fields) {
    const bool of_memory = field.key == "sustained_memory_bandwidth";
    const double factor = of_memory ? wider : field.form.kind == fields::Form::Kind::flop_rate ? larger : 1;
    const auto value = field.get(&gpu);
    if (factor == 1 || value.absent() || gives(over, field.key)) continue;
    if (const auto* rate = std::get_if<FlopRate>(&value)) field.set(&gpu, *rate * factor);
    if (const auto* bandwidth = std::get_if<Bandwidth>(&value)) field.set(&gpu, *bandwidth * factor);
    citations.sources[field.key] =
        fmt::format("as of GPU {}, by its {}", part.name, of_memory ? "memory_bandwidth" : "sms");
  }
  const auto grown = [&](Precision precision) {
    const auto before = file.gpu.peak.find(precision), now = gpu.peak.find(precision);
    return before == file.gpu.peak.end() || now == gpu.peak.end() ? 1 : now->second / before->second;
  };
  for (const auto& field : cluster::gpu_fields().fields) {
    const auto precision = of_precision(field.key);
    if (!precision) continue;
    const double factor = grown(*precision) / grown(Precision::bf16);
    const auto value = field.get(&gpu);
    const auto* speedup = std::get_if<double>(&value);
    if (!speedup || factor == 1 || gives(over, field.key)) continue;
    field.set(&gpu, *speedup * factor);
    citations.sources[field.key] = fmt::format("as of GPU {}, by its peaks", part.name);
  }
}

// What every data sheet of a GPU says. All else is taken from a relative where it is not given.
constexpr std::array kDataSheet{"peak", "sms", "memory", "memory_bandwidth"};
// Of the card and its driver, not of the chip: a relative says nothing of them.
constexpr std::array kOfTheCard{"name", "power", "power_limit", "eager_context"};

bool is_among(std::string_view key, std::span<const char* const> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](std::string_view one) {
    return key == one || (key.starts_with(one) && key[one.size()] == '.');
  });
}

// Of training: in 16 bits, where it computes in them.
double peak(const cluster::Gpu& gpu) {
  for (const auto precision : {Precision::bf16, Precision::fp16, Precision::tf32, Precision::fp32})
    if (const auto rate = gpu.peak.find(precision); rate != gpu.peak.end()) return rate->second.value();
  return 0;
}

// How far apart two data sheets are: the sum of the logarithms of the ratios of peaks, bandwidths and multiprocessors.
double distance(const cluster::Gpu& a, const cluster::Gpu& b) {
  return std::abs(std::log(peak(a) / peak(b))) + std::abs(std::log(a.memory_bandwidth / b.memory_bandwidth)) +
         std::abs(std::log(double(a.sms) / double(b.sms)));
}

// The relative: the one that `like` names, else the GPU of the files whose data sheet is nearest.
std::optional<GpuChoice> relative_of(Context& context, MapReader& map, const GpuChoice& sheet) {
  if (!sheet.like.empty()) {
    const Node* name = name_at(context, *map.find("like"), sheet.like);
    const Part part = resolve(context, *name, kGpus, "GPU");
    if (part.node && part.node->find("like")) {
      context.problems.error(name->where(),
                             fmt::format("GPU {0} itself says 'like: {1}'; name {1} instead", in_quotes(sheet.like),
                                         in_quotes(part.node->find("like")->text)));
      return std::nullopt;
    }
    return part.node ? load_gpu(context, *name) : std::nullopt;
  }
  std::optional<GpuChoice> nearest;
  for (const auto& name : names_in(context, kGpus)) {
    auto one = load_gpu(context, *name_at(context, map.place(), name));
    if (one && one->like.empty() && peak(one->gpu) > 0 &&
        (!nearest || distance(one->gpu, sheet.gpu) < distance(nearest->gpu, sheet.gpu)))
      nearest = std::move(one);
  }
  return nearest;
}

// A GPU of which only the data sheet is known: its attention kernels scale with the peak, its sustained bandwidth with
// the bandwidth of the memory, its gains by fp8 and fp4 with those peaks, and the other constants are those of the
// relative. All of them are assumed.
void assume_relative(Context& context, MapReader& map, GpuChoice& choice, Citations& citations) {
  const auto before = context.problems.count();
  for (const char* key : kDataSheet) map.require(key, "as its data sheet says");
  map.fill_given(gpu_choice_fields(), &choice);
  if (context.problems.count() != before || !(peak(choice.gpu) > 0)) return;
  auto relative = relative_of(context, map, choice);
  if (!relative) return;
  const auto& of = relative->gpu;
  const auto& gpu = choice.gpu;
  const auto share = [&](Precision precision) {  // of the peak in so few bits over that in 16, here over there
    const auto here = gpu.peak.find(precision), there = of.peak.find(precision);
    if (here == gpu.peak.end()) return 0.;
    return there == of.peak.end() ? 1. : here->second / there->second * peak(of) / peak(gpu);
  };
  for (const auto& field : cluster::gpu_fields().fields) {
    if (map.given(field.key) || is_among(field.key, kDataSheet) || is_among(field.key, kOfTheCard)) continue;
    auto value = field.get(&of);
    if (value.absent()) continue;
    if (auto* rate = std::get_if<FlopRate>(&value)) *rate = *rate * (peak(gpu) / peak(of));
    if (auto* bandwidth = std::get_if<Bandwidth>(&value))
      *bandwidth = *bandwidth * (gpu.memory_bandwidth / of.memory_bandwidth);
    const auto precision = of_precision(field.key);
    if (auto* speedup = std::get_if<double>(&value); speedup && precision) *speedup *= share(*precision);
    field.set(&choice.gpu, value);
    citations.sources[field.key] =
        fmt::format("as of {}, {}", of.name, choice.like.empty() ? "the nearest data sheet" : "its relative");
    citations.assumed.push_back(field.key);
  }
  if (!map.given("framework")) choice.flash_framework = relative->flash_framework;
}

// Whether a mapping says too little for a GPU of its own.
bool is_data_sheet(const MapReader& map) {
  const auto& all = cluster::gpu_fields().fields;
  return map.given("like") || std::any_of(all.begin(), all.end(), [&](const auto& field) {
           return field.required && !is_among(field.key, kDataSheet) && !map.given(field.key);
         });
}

}  // namespace

std::optional<GpuChoice> load_gpu(Context& context, const Node& node) {
  auto& problems = context.problems;
  const auto before = problems.count();
  const Part part = resolve(context, node, kGpus, "GPU");
  if (!part.node) return std::nullopt;

  Citations citations;
  MapReader map(problems, part.node, "gpu", node);
  map.cite(citations, "");
  GpuChoice choice;
  auto& gpu = choice.gpu;
  gpu.name = part.name;
  for (const char* key : kAbout) map.find(key);
  if (is_data_sheet(map))
    assume_relative(context, map, choice, citations);
  else
    map.fill(gpu_choice_fields(), &choice);
  map.finish();
  if (problems.count() != before) return std::nullopt;

  keep_shares(context, part, node, gpu, citations);
  if (gpu.sustained_memory_bandwidth > gpu.memory_bandwidth)
    problems.error(map.at("sustained_memory_bandwidth"),
                   "'sustained_memory_bandwidth' must not exceed 'memory_bandwidth'");
  gpu.sources = std::move(citations.sources);
  gpu.assumed = std::move(citations.assumed), gpu.fitted = std::move(citations.fitted);
  if (problems.count() != before) return std::nullopt;
  return choice;
}

}  // namespace rehearsal::scenario
