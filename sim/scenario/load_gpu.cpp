#include <fmt/format.h>

#include "cluster/fields.hpp"
#include "scenario/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// Whether a.b is given, with a source of its own or one for the whole mapping.
bool gives(const Node& over, std::string_view key) {
  const auto dot = key.find('.');
  const Node* value = over.find(key.substr(0, dot));
  if (value && value->kind == Node::Kind::map && value->find("value")) value = value->find("value");
  return value &&
         (dot == std::string_view::npos || (value->kind == Node::Kind::map && gives(*value, key.substr(dot + 1))));
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
    if (!field.key.starts_with("fp8_") && !field.key.starts_with("fp4_")) continue;
    const auto precision = field.key.starts_with("fp8_") ? Precision::fp8 : Precision::fp4;
    const double factor = grown(precision) / grown(Precision::bf16);
    const auto value = field.get(&gpu);
    const auto* speedup = std::get_if<double>(&value);
    if (!speedup || factor == 1 || gives(over, field.key)) continue;
    field.set(&gpu, *speedup * factor);
    citations.sources[field.key] = fmt::format("as of GPU {}, by its peaks", part.name);
  }
}

}  // namespace

std::optional<GpuChoice> load_gpu(Context& context, const Node& node) {
  auto& problems = context.problems;
  const auto before = problems.count();
  const Part part = resolve(context, node, "configs/gpus", "GPU");
  if (!part.node) return std::nullopt;

  Citations citations;
  MapReader map(problems, part.node, "gpu", node);
  map.cite(citations, "");
  GpuChoice choice;
  auto& gpu = choice.gpu;
  gpu.name = part.name;
  for (const char* key : kAbout) map.find(key);
  map.fill(gpu_choice_fields(), &choice);
  map.finish();
  if (problems.count() != before) return std::nullopt;

  keep_shares(context, part, node, gpu, citations);
  if (gpu.sustained_memory_bandwidth > gpu.memory_bandwidth)
    problems.error(map.at("sustained_memory_bandwidth"), "'sustained_memory_bandwidth' is above 'memory_bandwidth'");
  gpu.sources = std::move(citations.sources);
  gpu.assumed = std::move(citations.assumed);
  if (problems.count() != before) return std::nullopt;
  return choice;
}

}  // namespace rehearsal::scenario
