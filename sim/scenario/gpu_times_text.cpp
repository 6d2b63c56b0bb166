// Writes the measured times of a GPU as YAML, which load_gpu_times.cpp reads back.
#include <fmt/format.h>

#include "cost/measured_gpu.hpp"
#include "scenario/profile_parts.hpp"

namespace rehearsal::scenario {
namespace {

using cost::GpuTimes;

std::string error_text(const cost::FitErrors& e, const std::string& indent) {
  const auto one = [](const cost::SampleErrors& s) { return fmt::format("[{}, {}, {}]", s.samples, s.median, s.p90); };
  return fmt::format("{}error: {{fitted: {}, held_out: {}}}  # samples, median, p90\n", indent, one(e.fitted),
                     one(e.held_out));
}

// Both lists of samples; `shape` writes the columns before the times.
template <class Samples, class Shape>
std::string samples_text(const Samples& samples, const std::string& indent, Shape&& shape) {
  std::string out;
  for (const bool held_out : {false, true}) {
    std::string list;
    for (const auto& s : samples)
      if (s.held_out == held_out) list += fmt::format("{}  - [{}, {}]\n", indent, shape(s), text_of(s.time));
    if (!list.empty()) out += fmt::format("{}{}:\n{}", indent, held_out ? "held_out" : "samples", list);
  }
  return out;
}

std::string sizes_text(const cost::SizeTimes& times, const std::string& indent) {
  const auto& fit = times.fit;
  std::string out = fmt::format("{}fit: {{call: {}, byte: {}, far_byte: {}}}  # seconds for each\n", indent, fit.call,
                                fit.byte, fit.far_byte);
  if (fit.knee > Bytes()) out += fmt::format("{}knee: {}\n", indent, text_of(fit.knee));
  return out + error_text(fit.error, indent) +
         samples_text(times.samples, indent, [](const auto& s) { return text_of(s.size); });
}

std::string identity_text(const cost::GpuIdentity& gpu) {
  std::string out = fmt::format("gpu:\n  name: {}\n  capability: {}\n  multiprocessors: {}\n", quoted(gpu.name),
                                quoted(gpu.capability), gpu.multiprocessors);
  if (gpu.memory > Bytes()) out += fmt::format("  memory: {}\n", text_of(gpu.memory));
  for (const auto& [key, version] : {std::pair{"driver", &gpu.driver}, std::pair{"runtime", &gpu.runtime}})
    if (!version->empty()) out += fmt::format("  {}: {}\n", key, quoted(*version));
  for (const auto& [key, value] :
       {std::pair{"sm_clock_mhz", gpu.sm_clock_mhz}, std::pair{"memory_clock_mhz", gpu.memory_clock_mhz},
        std::pair{"power_limit_w", gpu.power_limit_w}})
    if (value > 0) out += fmt::format("  {}: {}\n", key, value);
  return out;
}

std::string gemm_text(const GpuTimes& times) {
  std::string out = fmt::format("gemm:\n  clock: {}\n", times.settled_clock ? "settled" : "burst");
  for (const auto& [precision, gemm] : times.gemm) {
    const auto& fit = gemm.fit;
    out += fmt::format(
        "  {}:\n    fit: {{rate: {}FLOP/s, small_tile_loss: {}, gemm_overhead: {}, tile_overhead: {}, "
        "weight_gradient_rate: {}}}\n",
        name(precision), fit.rate.value(), fit.small_tile_loss, text_of(fit.overhead), text_of(fit.tile_overhead),
        fit.weight_gradient_rate);
    if (!fit.kept.empty())
      out += fmt::format("    kept: [{}]  # of the GPU's file: the samples do not determine them\n",
                         fmt::join(fit.kept, ", "));
    out += error_text(fit.error, "    ");
    // [m, n, k, batch, 1 for a weight gradient]
    out += samples_text(gemm.samples, "    ", [](const auto& s) {
      return fmt::format("[{}, {}, {}, {}, {}]", s.shape.m, s.shape.n, s.shape.k, s.shape.batch,
                         s.shape.weight_gradient ? 1 : 0);
    });
  }
  return out;
}

std::string attention_text(const GpuTimes& times) {
  std::string out = "attention:\n";
  for (const auto& [kernel, attention] : times.attention) {
    out += fmt::format("  {}:\n    rate: {}FLOP/s\n", cost::name(kernel), attention.rate.value());
    out += error_text(attention.error, "    ");
    // [batch, heads, queries, keys, head size, 1 if causal, 1 if backward]
    out += samples_text(attention.samples, "    ", [](const auto& s) {
      return fmt::format("[{}, {}, {}, {}, {}, {}, {}]", s.shape.batch, s.shape.heads, s.shape.queries, s.shape.keys,
                         s.shape.head_dim, s.shape.causal ? 1 : 0, s.shape.backward ? 1 : 0);
    });
  }
  return out;
}

}  // namespace

std::string gpu_times_text(const GpuTimes& times) {
  std::string out = identity_text(times.gpu);
  if (!times.gemm.empty()) out += gemm_text(times);
  if (!times.attention.empty()) out += attention_text(times);
  if (times.memory_bound) out += "memory_bound:\n" + sizes_text(*times.memory_bound, "  ");
  if (const auto& link = times.host_link) {
    out += "host_link:\n  to_device:\n" + sizes_text(link->to_device, "    ");
    out += "  to_host:\n" + sizes_text(link->to_host, "    ");
    for (const auto& [key, value] :
         {std::pair{"duplex", link->duplex}, std::pair{"copy_beside_gemm", link->copy_beside_gemm},
          std::pair{"gemm_beside_copy", link->gemm_beside_copy}})
      if (value > 0) out += fmt::format("  {}: {}\n", key, value);
  }
  if (times.device_copy) out += "device_copy:\n" + sizes_text(*times.device_copy, "  ");
  const auto& launch = times.launch;
  if (launch.host || launch.stream || launch.graph) out += "launch:\n";
  for (const auto& [key, value] :
       {std::pair{"host", &launch.host}, std::pair{"stream", &launch.stream}, std::pair{"graph", &launch.graph}})
    if (*value) out += fmt::format("  {}: {}\n", key, text_of(**value));
  if (!times.partitions.empty()) out += "partitions:\n";
  for (const auto& p : times.partitions)
    out += fmt::format("  - {{multiprocessors: {}, precision: {}, shape: [{}, {}, {}], alone: {}, busy: {}}}\n",
                       p.multiprocessors, name(p.shape.precision), p.shape.m, p.shape.n, p.shape.k, text_of(p.alone),
                       text_of(p.busy));
  return out;
}

}  // namespace rehearsal::scenario
