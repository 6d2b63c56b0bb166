// A DGX A100 80 GB node and the framework of 2021 for tests, independent of configs/. Sources: A100 white paper (peak,
// SMs, HBM); constants of models/README.md; all-reduce times: vTrain's nccl-tests tables (VIA-Research/vTrain,
// trace/a100/AR_GPU*_1M_1024M_LUT), 1 MiB to 1 GiB in powers of two, microseconds.
#pragma once
#include <array>

#include "../../links.hpp"
#include "cost/cost_model.hpp"

namespace rehearsal::test {

inline cluster::Gpu a100() {
  cluster::Gpu gpu;
  gpu.name = "a100-80g";
  gpu.peak = {{Precision::fp16, FlopRate(312e12)}, {Precision::bf16, FlopRate(312e12)}};
  gpu.sms = 108;
  gpu.memory = Bytes(80'000'000'000);
  gpu.memory_bandwidth = Bandwidth(2039e9);
  gpu.sustained_memory_bandwidth = Bandwidth(1620e9);
  gpu.gemm_efficiency = .951;
  gpu.sustained_clock = .79;
  gpu.weight_gradient_rate = 1.13;
  gpu.small_tile_loss = .73;
  gpu.gemm_overhead = seconds(.3e-6);
  gpu.tile_overhead = seconds(5.1e-6);
  gpu.fused_attention_rate = FlopRate(208e12);
  gpu.kernel_gap = seconds(2e-6);
  return gpu;
}

inline collective::SizeCurves a100_curves() {
  collective::SizeCurves curves;
  curves.name = "a100";
  curves.measured_on = {"nvswitch", 8, Bandwidth(300e9), seconds(1.22e-6), nvlink(3), kNewestNccl, {}, {}, {}};
  const auto table = [&](std::uint32_t ranks, std::array<double, 11> us) {
    auto& points = curves.measured[{CollectiveKind::all_reduce, ranks}];
    for (std::size_t i = 0; i < us.size(); ++i) points.push_back({Bytes(1 << (20 + i)), seconds(us[i] * 1e-6)});
  };
  table(2, {44.21, 53.43, 61.18, 86.9, 131.9, 230.0, 404.7, 763.6, 1455.8, 2838.4, 5442.8});
  table(4, {51.4, 55.74, 77.32, 116.8, 179.6, 284.2, 543.8, 998.6, 1929.0, 3720.0, 7259.4});
  table(8, {92.79, 93.25, 95.8, 134.3, 232.4, 358.1, 579.9, 1162.0, 2162.3, 4191.5, 8193.0});
  return curves;
}

// Eight GPUs and eight 200 Gb/s NICs a node.
inline cluster::ClusterSpec dgx_a100(std::int64_t nodes = 1) {
  cluster::ClusterSpec c;
  c.name = "dgx-a100-80g";
  c.gpu = a100();
  c.gpus_per_node = 8;
  c.nodes = nodes;
  c.topology.name = "rail-optimized";
  c.nvlink = Bandwidth(300e9);
  c.nvlink_latency = seconds(1.22e-6);
  c.interconnect = nvlink(3), c.library = nccl();
  c.nvlink_message = Bandwidth(80e9);
  c.nvlink_gather = Bandwidth(220e9);
  c.nics_per_node = 8;
  c.nic = Bandwidth(25e9);
  c.nic_latency = seconds(25e-6);
  c.nic_efficiency = .85;
  c.nic_message_efficiency = .9;
  c.message_overhead = seconds(250e-6);
  return c;
}

inline models::Framework megatron_2021() {
  models::Framework s;
  s.name = "megatron-2021";
  s.dropout = true;
  s.accumulate_bytes_fp16 = 6;
  s.optimizer_bytes = 60;
  s.host_seconds_per_kernel = 58e-6;
  s.sharded_sends = s.blocking_sends = true;
  return s;
}

inline models::Training fp16_unfused() {
  models::Training t;
  t.precision = t.gradient_precision = Precision::fp16;
  t.attention = models::AttentionKind::unfused;
  return t;
}

inline models::Transformer gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t sequence) {
  models::Transformer m;
  m.family = models::Family::gpt;
  m.layers = layers, m.hidden = hidden, m.heads = m.kv_heads = heads, m.head_dim = hidden / heads;
  m.ffn = 4 * hidden, m.vocabulary = 51200, m.sequence = sequence;
  return m;
}

}  // namespace rehearsal::test
