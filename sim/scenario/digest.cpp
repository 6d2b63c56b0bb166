// What a scenario means, in one canonical text, and its SHA-256. Two files with the same digest ask the same question:
// spelling, order of keys, defaults written out or not, and the file's name do not count; citations do not either.
#include <fmt/format.h>

#include "base/sha256.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

class Dump {
 public:
  void put(std::string_view key, std::string_view value) {
    fmt::format_to(std::back_inserter(text_), "{}={}:{}\n", key, value.size(), value);
  }
  void put(std::string_view key, const std::string& value) { put(key, std::string_view(value)); }
  void put(std::string_view key, const char* value) { put(key, std::string_view(value)); }
  void put(std::string_view key, double value) { put(key, fmt::format("{}", value)); }
  void put(std::string_view key, std::int64_t value) { put(key, fmt::format("{}", value)); }
  void put(std::string_view key, std::uint64_t value) { put(key, fmt::format("{}", value)); }
  void put(std::string_view key, int value) { put(key, std::int64_t{value}); }
  void put(std::string_view key, std::uint32_t value) { put(key, std::int64_t{value}); }
  void put(std::string_view key, bool value) { put(key, value ? "true" : "false"); }
  template <class Tag>
  void put(std::string_view key, Quantity<Tag> value) {
    put(key, value.count());
  }
  template <class Tag>
  void put(std::string_view key, RealQuantity<Tag> value) {
    put(key, value.value());
  }
  template <class E>
  requires std::is_enum_v<E>
  void put(std::string_view key, E value) { put(key, static_cast<std::int64_t>(value)); }
  template <class T>
  void put(std::string_view key, const std::optional<T>& value) {
    if (value) put(key, *value);
  }
  template <class T>
  void put(std::string_view key, const std::vector<T>& values) {
    put(key, std::int64_t(values.size()));
    for (const auto& v : values) put(key, v);
  }
  std::string hex() const { return sha256(text_); }

 private:
  std::string text_;
};

void dump(Dump& d, const models::Transformer& m) {
  d.put("model", m.name), d.put("family", m.family), d.put("layers", m.layers), d.put("hidden", m.hidden);
  d.put("heads", m.heads), d.put("kv_heads", m.kv_heads), d.put("head_dim", m.head_dim), d.put("ffn", m.ffn);
  d.put("ffn_kind", m.ffn_kind), d.put("vocabulary", m.vocabulary), d.put("tie_embeddings", m.tie_embeddings);
}

void dump(Dump& d, const models::Training& t) {
  d.put("precision", t.precision), d.put("gradient_precision", t.gradient_precision), d.put("optimizer", t.optimizer);
  d.put("recompute", t.recompute), d.put("attention", t.attention), d.put("causal", t.causal);
  // Younger than digests that people keep: their defaults are not named.
  const models::Training usual;
  if (t.bucket != usual.bucket) d.put("bucket", t.bucket);
  if (t.gathered_ahead() != usual.gathered_ahead()) d.put("prefetch", t.gathered_ahead());
  if (t.allocator != usual.allocator) d.put("allocator", t.allocator);
  if (t.reshards() != usual.reshards()) d.put("reshard_after_forward", t.reshards());
  if (t.recompute_every != usual.recompute_every) d.put("recompute_every", t.recompute_every);
  if (t.recompute_layers) d.put("recompute_layers", t.recompute_layers);
  if (t.kernels != usual.kernels) d.put("kernels", t.kernels);
}

void dump(Dump& d, const models::Software& s) {
  const models::Software usual;
  if (s.loss != usual.loss) d.put("loss", s.loss);
  if (s.saves_gathered != usual.saves_gathered) d.put("saves_gathered", s.saves_gathered);
  if (s.keeps_stage_output != usual.keeps_stage_output) d.put("keeps_stage_output", s.keeps_stage_output);
  if (s.flat_gradient_bytes != usual.flat_gradient_bytes) d.put("flat_gradient_bytes", s.flat_gradient_bytes);
  if (s.step_gradient_bytes != usual.step_gradient_bytes) d.put("step_gradient_bytes", s.step_gradient_bytes);
  if (s.workspace != usual.workspace) d.put("workspace", s.workspace);
  d.put("software", s.name), d.put("dropout", s.dropout), d.put("fused_accumulation", s.fused_accumulation);
  d.put("accumulate_bytes_fp16", s.accumulate_bytes_fp16), d.put("accumulate_bytes_bf16", s.accumulate_bytes_bf16);
  d.put("optimizer_bytes", s.optimizer_bytes), d.put("host_time_per_kernel", s.host_seconds_per_kernel);
  d.put("host_backward_factor", s.host_backward_factor), d.put("attention_rate", s.attention_rate);
  d.put("sharded_sends", s.sharded_sends), d.put("blocking_sends", s.blocking_sends);
  d.put("gradient_overlap", s.gradient_overlap), d.put("early_stop", s.early_stop), d.put("compiled", s.compiled);
  if (s.selective_recompute != usual.selective_recompute) d.put("selective_recompute", s.selective_recompute);
  if (s.separate_projections) d.put("separate_projections", true);
  if (s.async_tensor) d.put("async_tensor", s.async_tensor);
  if (s.attention_kernel != usual.attention_kernel) d.put("attention_kernel", s.attention_kernel);
  if (s.fp8_scaling != usual.fp8_scaling) d.put("fp8_scaling", s.fp8_scaling);
}

void dump(Dump& d, const cluster::Gpu& g) {
  d.put("gpu", g.name);
  for (const auto& [precision, rate] : g.peak) d.put("peak_of", precision), d.put("peak", rate);
  d.put("sms", g.sms), d.put("memory", g.memory), d.put("memory_bandwidth", g.memory_bandwidth);
  d.put("sustained_memory_bandwidth", g.sustained_memory_bandwidth), d.put("gemm_efficiency", g.gemm_efficiency);
  d.put("sustained_clock", g.sustained_clock), d.put("weight_gradient_rate", g.weight_gradient_rate);
  d.put("gemm_overhead", g.gemm_overhead), d.put("tile_overhead", g.tile_overhead);
  d.put("fused_attention_rate", g.fused_attention_rate), d.put("fp8_speedup", g.fp8_speedup),
      d.put("kernel_gap", g.kernel_gap);
  // Younger than digests that people keep: their defaults are not named.
  const cluster::Gpu usual;
  if (g.small_tile_loss != usual.small_tile_loss) d.put("small_tile_loss", g.small_tile_loss);
  if (g.flash3_attention_rate.value() > 0) d.put("flash3_attention_rate", g.flash3_attention_rate);
  if (g.cudnn_attention_rate.value() > 0) d.put("cudnn_attention_rate", g.cudnn_attention_rate);
  if (g.attention_tail != usual.attention_tail) d.put("attention_tail", g.attention_tail);
  if (g.fp8_rowwise_speedup > 0) d.put("fp8_rowwise_speedup", g.fp8_rowwise_speedup);
  if (g.fp8_blockwise_speedup > 0) d.put("fp8_blockwise_speedup", g.fp8_blockwise_speedup);
}

void dump(Dump& d, const cluster::ClusterSpec& c) {
  d.put("cluster", c.name), d.put("gpus_per_node", c.gpus_per_node), d.put("nodes", c.nodes),
      d.put("topology", c.topology);
  d.put("nvlink", c.nvlink), d.put("nvlink_latency", c.nvlink_latency), d.put("nvlink_message", c.nvlink_message);
  d.put("nvlink_gather", c.nvlink_gather), d.put("nics_per_node", c.nics_per_node), d.put("nic", c.nic);
  d.put("nic_latency", c.nic_latency), d.put("nic_efficiency", c.nic_efficiency);
  d.put("nic_message_efficiency", c.nic_message_efficiency), d.put("message_overhead", c.message_overhead);
  if (c.nvlink_generation > 0) d.put("nvlink_generation", c.nvlink_generation);
  if (c.nics_per_group > 0) d.put("nics_per_group", c.nics_per_group);
  if (c.fabric != 1) d.put("fabric", c.fabric);
  dump(d, c.gpu);
}

void dump(Dump& d, const collective::SizeCurves& c) {
  d.put("collectives", c.name), d.put("fitted_ranks", c.fitted_ranks);
  for (const auto& [key, points] : c.measured) {
    d.put("measured", key.first), d.put("ranks", key.second);
    for (const auto& p : points) d.put("size", p.size), d.put("time", p.time);
  }
  for (const auto& [kind, f] : c.fitted)
    d.put("fitted", kind), d.put("fixed", f.fixed), d.put("rate", f.rate), d.put("half_size", f.half_size);
}

}  // namespace

std::string digest(const Scenario& s) {
  Dump d;
  d.put("rehearsal-scenario", 1);
  d.put("name", s.name);
  const auto& p = s.parallelism;
  d.put("tensor", p.tensor), d.put("sequence_parallel", p.sequence), d.put("pipeline", p.pipeline),
      d.put("chunks", p.chunks);
  d.put("data", p.data), d.put("zero", p.zero);
  if (p.zero == 3 && s.concrete) d.put("overlap_gathers", s.concrete->training.overlap_gathers);
  d.put("global", s.batch.global), d.put("micro", s.batch.micro), d.put("sequence", s.batch.sequence);
  d.put("microbatches", s.microbatches);
  d.put("schedule", s.schedule.name), d.put("group", s.schedule.group), d.put("extra_warmup", s.schedule.extra_warmup);
  d.put("memory_limit", s.schedule.memory_limit);
  if (s.schedule.imported) d.put("order", s.schedule.imported_sha256);
  if (s.schedule.pieces) d.put("pieces", s.schedule.pieces);
  if (s.schedule.waves) d.put("waves", s.schedule.waves);
  if (s.schedule.time_limit) d.put("time_limit", *s.schedule.time_limit);
  d.put("detail", s.simulate.detail), d.put("symmetry", s.simulate.symmetry),
      d.put("iterations", s.simulate.iterations);
  d.put("seed", s.simulate.seed);
  if (s.optimizer_sync.post_validation)
    d.put("post_validation", true), d.put("rollback_probability", s.optimizer_sync.rollback_probability);
  if (s.concrete) {
    const auto& c = *s.concrete;
    dump(d, c.model), dump(d, c.training), dump(d, c.software), dump(d, c.cluster), dump(d, c.curves);
    if (c.profile) d.put("profile", c.profile->digest);
    if (c.software.own_kernels)
      d.put("own_kernels", true), d.put("model_sequence", c.model.sequence),
          d.put("learning_rate", c.training.learning_rate), d.put("weight_decay", c.training.weight_decay);
    d.put("partition", c.partition.kind), d.put("layers", c.partition.layers);
    d.put("embedding", c.partition.embedding), d.put("head", c.partition.head);
  }
  if (s.abstract) {
    const auto& a = *s.abstract;
    d.put("forward", a.forward), d.put("backward", a.backward), d.put("weight", a.weight),
        d.put("transfer", a.transfer);
    d.put("activation", a.activation), d.put("weight_hold", a.weight_hold);
  }
  return d.hex();
}

}  // namespace rehearsal::scenario
