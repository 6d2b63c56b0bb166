#include <fmt/format.h>

#include "scenario/load.hpp"

namespace rehearsal::scenario {

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
  map.find("use"), map.find("name"), map.find("summary"), map.find("source");
  choice.flash_software = map.text("software", "megatron-2024");
  if (const Node* peak = map.require("peak", "rates such as {bf16: 312TFLOP/s}")) {
    MapReader rates(problems, peak, "peak", *peak);
    const std::pair<const char*, Precision> kinds[] = {{"fp32", Precision::fp32},
                                                       {"tf32", Precision::tf32},
                                                       {"fp16", Precision::fp16},
                                                       {"bf16", Precision::bf16},
                                                       {"fp8", Precision::fp8}};
    for (const auto& [key, precision] : kinds) {
      if (!rates.given(key)) {
        rates.find(key);
        continue;
      }
      gpu.peak[precision] = rates.flop_rate(key);
      if (gpu.peak[precision].value() <= 0) problems.error(rates.at(key), fmt::format("'{}' must be above zero", key));
    }
    rates.finish();
  }
  gpu.sms = map.integer("sms", {1, 100'000});
  gpu.memory = map.bytes("memory");
  gpu.memory_bandwidth = map.bandwidth("memory_bandwidth");
  gpu.sustained_memory_bandwidth = map.bandwidth("sustained_memory_bandwidth");
  gpu.gemm_efficiency = map.number("gemm_efficiency", kFraction);
  gpu.sustained_clock = map.number("sustained_clock", {0, 2, true});
  gpu.weight_gradient_rate = map.number("weight_gradient_rate", {0, 2, true}, 1.);
  gpu.small_tile_loss = map.number("small_tile_loss", {0, 10}, 0.);
  gpu.gemm_overhead = map.time("gemm_overhead", true);
  gpu.tile_overhead = map.time("tile_overhead", true);
  gpu.fused_attention_rate = map.flop_rate("fused_attention_rate");
  gpu.flash3_attention_rate = map.flop_rate("flash3_attention_rate", FlopRate());
  gpu.cudnn_attention_rate = map.flop_rate("cudnn_attention_rate", FlopRate());
  gpu.attention_tail = map.number("attention_tail", {0, 10}, gpu.attention_tail);
  gpu.fp8_speedup = map.number("fp8_speedup", {0, 10}, 0.);
  gpu.fp8_rowwise_speedup = map.number("fp8_rowwise_speedup", {0, 10}, 0.);
  gpu.fp8_blockwise_speedup = map.number("fp8_blockwise_speedup", {0, 10}, 0.);
  gpu.kernel_gap = map.time("kernel_gap", true);
  map.finish();
  if (problems.count() != before) return std::nullopt;

  if (gpu.sustained_memory_bandwidth > gpu.memory_bandwidth)
    problems.error(map.at("sustained_memory_bandwidth"), "'sustained_memory_bandwidth' is above 'memory_bandwidth'");
  gpu.sources = std::move(citations.sources);
  gpu.assumed = std::move(citations.assumed);
  if (problems.count() != before) return std::nullopt;
  return choice;
}

}  // namespace rehearsal::scenario
