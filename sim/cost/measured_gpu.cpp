#include "cost/measured_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <vector>

#include "cost/attention.hpp"
#include "cost/gemm.hpp"

namespace rehearsal::cost {
namespace {

// Drivers count what the data sheet rounds: 150.1 GB for 141, 85.0 for 80. Versions of one chip differ by a fifth.
constexpr double kMemoryTolerance = .1;

// "NVIDIA A100-SXM4-80GB" -> nvidia, a100, sxm4, 80gb
std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> all(1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      all.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!all.back().empty())
      all.emplace_back();
  }
  return all;
}

FlopRate& rate_of(cluster::Gpu& gpu, models::AttentionKernel kernel) {
  return kernel == models::AttentionKernel::flash3  ? gpu.flash3_attention_rate
         : kernel == models::AttentionKernel::cudnn ? gpu.cudnn_attention_rate
                                                    : gpu.fused_attention_rate;
}
const char* rate_key(models::AttentionKernel kernel) {
  return kernel == models::AttentionKernel::flash3  ? "flash3_attention_rate"
         : kernel == models::AttentionKernel::cudnn ? "cudnn_attention_rate"
                                                    : "fused_attention_rate";
}

template <class Samples, class Shape>
std::optional<double> exact(const Samples& samples, const Shape& shape) {
  for (const auto& s : samples)
    if (!s.held_out && s.shape == shape) return to_seconds(s.time.p50);
  return std::nullopt;
}

std::string shown(const FitErrors& e) {
  if (e.held_out.samples == 0) return "";
  return fmt::format(" ({} held out: median error {:.1f} %, p90 {:.1f} %)", e.held_out.samples, 100 * e.held_out.median,
                     100 * e.held_out.p90);
}

}  // namespace

const char* name(models::AttentionKernel kernel) {
  return kernel == models::AttentionKernel::flash3  ? "flash-3"
         : kernel == models::AttentionKernel::cudnn ? "cudnn"
                                                    : "flash-2";
}

std::string mismatch(const GpuIdentity& measured, const cluster::Gpu& type) {
  if (measured.multiprocessors != type.sms)
    return fmt::format("the one measured has {} multiprocessors, the other {}", measured.multiprocessors, type.sms);
  const auto said = words(measured.name);
  if (type.name != "inline" && std::find(said.begin(), said.end(), words(type.name).front()) == said.end())
    return "their names differ";
  if (measured.memory > Bytes() && std::abs(measured.memory / type.memory - 1) > kMemoryTolerance)
    return fmt::format("the one measured has {:.0f} GB of memory, the other {:.0f}",
                       double(measured.memory.count()) / 1e9, double(type.memory.count()) / 1e9);
  return "";
}

cluster::Gpu with_gemm(cluster::Gpu gpu, const GpuTimes& times, Precision precision) {
  const auto found = times.gemm.find(precision);
  if (found == times.gemm.end()) return gpu;
  const auto& fit = found->second.fit;
  // fp32 without a peak of its own would be counted as tf32.
  if (!gpu.peak.count(precision)) gpu.peak[precision] = fit.rate;
  gpu.gemm_efficiency = fit.rate / gpu.peak.at(precision);
  gpu.small_tile_loss = fit.small_tile_loss;
  gpu.gemm_overhead = fit.overhead, gpu.tile_overhead = fit.tile_overhead;
  gpu.weight_gradient_rate = fit.weight_gradient_rate;
  if (times.settled_clock) gpu.sustained_clock = 1;  // the rate includes it
  return gpu;
}

cluster::Gpu with_attention(cluster::Gpu gpu, models::AttentionKernel kernel, FlopRate rate) {
  rate_of(gpu, kernel) = rate;
  return gpu;
}

std::optional<Precision> main_precision(const GpuTimes& times) {
  for (const auto p : {Precision::bf16, Precision::fp16, Precision::fp32, Precision::tf32})
    if (times.gemm.count(p)) return p;
  return std::nullopt;
}

cluster::Gpu measured(cluster::Gpu gpu, const GpuTimes& times, const std::string& source) {
  std::vector<std::string> keys;
  if (times.memory_bound && times.memory_bound->fit.far_rate().value() > 0) {
    gpu.sustained_memory_bandwidth = times.memory_bound->fit.far_rate();
    keys.emplace_back("sustained_memory_bandwidth");
  }
  if (const auto precision = main_precision(times)) {
    gpu = with_gemm(std::move(gpu), times, *precision);
    const auto& kept = times.gemm.at(*precision).fit.kept;
    for (const char* key :
         {"gemm_efficiency", "small_tile_loss", "gemm_overhead", "tile_overhead", "weight_gradient_rate"})
      if (std::find(kept.begin(), kept.end(), key) == kept.end()) keys.emplace_back(key);
    if (times.settled_clock) keys.emplace_back("sustained_clock");
    if (*precision == Precision::bf16 && times.gemm.count(Precision::fp8)) {
      gpu.fp8_speedup = times.gemm.at(Precision::fp8).fit.rate / times.gemm.at(Precision::bf16).fit.rate;
      keys.emplace_back("fp8_speedup");
    }
  }
  for (const auto& [kernel, attention] : times.attention) {
    gpu = with_attention(std::move(gpu), kernel, attention.rate);
    keys.emplace_back(rate_key(kernel));
  }
  if (times.launch.stream) gpu.kernel_gap = times.launch.stream->p50, keys.emplace_back("kernel_gap");
  for (const auto& key : keys) {
    gpu.sources[key] = source;
    std::erase(gpu.assumed, key), std::erase(gpu.fitted, key);
  }
  return gpu;
}

std::optional<double> measured_gemm(const GpuTimes& times, const cluster::Gpu& gpu, const Gemm& shape) {
  const auto found = times.gemm.find(shape.precision);
  if (found == times.gemm.end()) return std::nullopt;
  const double clock = gpu.clock();
  const double fitted = gemm_time(gpu, shape, shape.precision, clock);
  const auto sample = exact(found->second.samples, shape);
  if (!sample) return fitted;
  // The median of a burst, scaled by the model's ratio of settled to burst clock.
  return times.settled_clock ? *sample : *sample * fitted / gemm_time(gpu, shape, shape.precision, 1);
}

std::optional<double> measured_attention(const GpuTimes& times, const cluster::Gpu& gpu, const FusedAttention& shape,
                                         models::AttentionKernel kernel) {
  const auto found = times.attention.find(attention_kernel(gpu, kernel));
  if (found == times.attention.end()) return std::nullopt;
  const auto sample = exact(found->second.samples, shape);
  return sample ? *sample : attention_time(gpu, shape, kernel);
}

std::optional<double> measured_traffic(const GpuTimes& times, const MemoryBound& shape, double factor) {
  if (!times.memory_bound || shape.kernels < 1) return std::nullopt;
  const auto& fit = times.memory_bound->fit;
  const double kernels = double(shape.kernels);
  const double moved = fit.time(bytes(double(shape.traffic.count()) / kernels)) - fit.call;
  return kernels * (fit.call + factor * moved);
}

std::string summary(const GpuTimes& times) {
  std::vector<std::string> all;
  for (const auto& [precision, gemm] : times.gemm)
    all.push_back(fmt::format("matrix products in {}{}", name(precision), shown(gemm.fit.error)));
  for (const auto& [kernel, attention] : times.attention)
    all.push_back(fmt::format("attention of {}{}", name(kernel), shown(attention.error)));
  if (times.memory_bound) all.push_back("memory-bound kernels" + shown(times.memory_bound->fit.error));
  if (times.launch.stream) all.emplace_back("the gap between kernels");
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace rehearsal::cost
