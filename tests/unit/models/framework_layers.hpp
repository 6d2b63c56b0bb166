// Layers, embedding and head of two small models as a framework runs them, pass by pass, and counts over them.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "models/framework.hpp"
#include "models/lives.hpp"

namespace rehearsal::models {

// h 1024, 16 heads of 64, ffn 4096; s 512, b 2: T = 1024.
inline Transformer gpt() {
  Transformer m;
  m.layers = 1, m.hidden = 1024, m.heads = m.kv_heads = 16, m.head_dim = 64, m.ffn = 4096;
  m.vocabulary = 51200, m.sequence = 512;
  return m;
}
// h 1024, 16 heads of 64, 4 key-value heads, SwiGLU of 2816.
inline Transformer llama() {
  Transformer m = gpt();
  m.family = Family::llama, m.ffn_kind = FfnKind::swiglu, m.kv_heads = 4, m.ffn = 2816, m.tie_embeddings = false;
  return m;
}
inline Training training(AttentionKind attention, Recompute recompute = Recompute::none) {
  Training t;
  t.precision = t.gradient_precision = Precision::fp16;
  t.attention = attention, t.recompute = recompute;
  return t;
}
inline Framework framework(bool dropout = true, bool compiled = false) {
  Framework s;
  s.dropout = dropout, s.compiled = compiled;
  return s;
}
inline Shard shard(std::int64_t tensor = 1, bool sequence_parallel = false, std::int64_t microbatches = 1) {
  return {tensor, sequence_parallel, 2, 512, microbatches};
}

// A part, its passes one by one.
struct Work {
  std::vector<Step> forward, recompute, input_gradient, weight_gradient, backward;
  Bytes activations, recomputed, weight_hold;
  double parameters = 0;
  std::int64_t forward_kernels = 0, backward_kernels = 0;
  Bytes highest_forward, highest_backward;  // bytes that live at once
};
inline Bytes highest(const Part& part, const Lives& lives, bool backward) {
  Bytes level = backward ? lives.activations : Bytes{}, most = level;
  const auto add = [&](std::optional<std::uint16_t> v) {
    if (v) level += part.values[*v].size;
  };
  add(backward ? part.output_gradient : part.input);
  for (const auto& step : lives.of(backward ? PassKind::backward : PassKind::forward)) {
    for (const auto v : step.born) level += part.values[v].size;
    most = std::max(most, level);
    for (const auto v : step.dies) level -= part.values[v].size;
  }
  return most;
}
inline Work work_of(const Part& part) {
  Work work;
  work.forward = part.forward, work.weight_gradient = part.weight_gradient_steps, work.backward = part.backward;
  for (const auto& step : part.input_gradient_steps)
    (step.repeats ? work.recompute : work.input_gradient).push_back(step);
  const auto lives = models::lives(part);
  work.activations = lives.activations, work.recomputed = lives.recomputed, work.weight_hold = lives.weight_hold;
  work.parameters = part.parameters;
  for (const auto& run : part.forward_launches) work.forward_kernels += run.launches;
  work.backward_kernels = part.backward_launches;
  work.highest_forward = highest(part, lives, false), work.highest_backward = highest(part, lives, true);
  return work;
}
inline Work layer_work(const Transformer& m, const Training& t, const Framework& s, const Shard& shard) {
  return work_of(framework_network(m, t, s, shard).layers.front());
}
inline Work head_work(const Transformer& m, const Training& t, const Framework& s, const Shard& shard) {
  return work_of(framework_network(m, t, s, shard).head);
}
inline Work embedding_work(const Transformer& m, const Training& t, const Framework& s, const Shard& shard) {
  return work_of(framework_network(m, t, s, shard).embedding);
}

struct Totals {
  double flops = 0, traffic = 0, beyond = 0;
  std::int64_t gemms = 0, collectives = 0;
};
inline Totals totals(const std::vector<Step>& operators) {
  Totals sum;
  for (const auto& op : operators) {
    if (const auto* g = std::get_if<Gemm>(&op.what)) sum.flops += g->flops().value(), ++sum.gemms;
    if (const auto* a = std::get_if<FusedAttention>(&op.what)) sum.flops += a->flops().value();
    if (const auto* m = std::get_if<MemoryBound>(&op.what))
      sum.traffic += double(m->traffic.count()), sum.beyond += double(m->beyond.count());
    if (std::holds_alternative<GroupCollective>(op.what)) ++sum.collectives;
  }
  return sum;
}

inline constexpr double T = 1024, h = 1024, f = 4096;
inline constexpr double kScores = 2. * 16 * 512 * 512;  // b a s^2

}  // namespace rehearsal::models
