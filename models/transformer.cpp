#include "models/transformer.hpp"

#include <algorithm>

#include "models/shapes.hpp"

namespace rehearsal::models {

// h (a + 2 kv) d + a d h. Latent: queries h q + q a (d + r) or h a (d + r); keys and values h (c + r) + c a (d + v); a
// v h.
double mixer_matrices(std::int64_t hidden, const Mixer& mixer) {
  const double h = double(hidden), a = double(mixer.heads);
  if (!mixer.mla) {
    const auto columns = (mixer.heads + 2 * mixer.kv_heads) * mixer.head_dim;
    return h * double(columns) + double(mixer.heads * mixer.head_dim) * h;
  }
  const auto& mla = *mixer.mla;
  const double q = double(mla.query_rank), c = double(mla.kv_rank), r = double(mla.rotary_dim);
  const double d = double(mla.head_dim), v = double(mla.value_dim);
  return (q > 0 ? h * q + q * a * (d + r) : h * a * (d + r)) + h * (c + r) + c * a * (d + v) + a * v * h;
}

// f h (2 + gates); with experts those of each of them, of shared ones, and of the router.
double ffn_matrices(std::int64_t hidden, const FeedForward& ffn, Experts experts) {
  const double h = double(hidden), n = double(ffn.up_projections() + 1);
  if (!ffn.has_experts()) return n * h * double(ffn.width);
  const auto counted = experts == Experts::all ? ffn.experts : experts == Experts::used ? ffn.experts_per_token : 0;
  return n * h * double(counted * ffn.expert_width + ffn.shared_width) + h * double(ffn.experts);
}

double score_columns(const Mixer& mixer) { return double(mixer.heads * (mixer.score_dim() + mixer.value_dim())); }

namespace {

// Sum of `of` over all layers, those of multi-token prediction included.
template <class OfLayer>
double over_layers(const Transformer& m, OfLayer&& of) {
  const auto table = layer_table(m);
  double sum = double(m.mtp_layers) * of(table.last());
  for (const auto& row : table.rows) sum += double(row.count) * of(row.spec);
  return sum;
}

// Entries of the weight matrices between the ends, and of those that join two hidden states.
double matrices(const Transformer& m, Experts experts) {
  const double h = double(m.hidden);
  return double(m.mtp_layers) * 2 * h * h + over_layers(m, [&](const LayerSpec& layer) {
           return mixer_matrices(m.hidden, layer.mixer) + ffn_matrices(m.hidden, layer.ffn, experts);
         });
}

// Entries of the biases and norms of a layer: biases of the four linear layers of gpt, 9 h when f = 4 h, and two norms.
double vectors(const Transformer& m, const LayerSpec& layer) {
  const double h = double(m.hidden);
  const auto& [heads, kv_heads, head_dim, mla] = layer.mixer;
  if (!m.is_gpt()) return 2 * h + (mla ? double(mla->query_rank + mla->kv_rank) : 0);
  const double q = double(heads * head_dim), kv = double(kv_heads * head_dim);
  const double up = double(layer.ffn.width) * double(layer.ffn.up_projections());
  return (q + 2 * kv) + h + up + h + 4 * h;
}

double parameters_with(const Transformer& m, Experts experts) {
  if (m.family == Family::mlp)
    return double(m.layers) * (2 * double(m.hidden) * double(m.ffn) + double(m.ffn) + double(m.hidden));
  const double h = double(m.hidden);
  double ends = double(m.vocabulary) * h * (m.tie_embeddings ? 1 : 2);
  if (m.is_gpt())
    ends += (m.learned_positions ? double(m.sequence) * h : 0) + (m.embedding_norm ? 4 : 2) * h;  // norms: 2 h each
  else
    ends += h + double(m.mtp_layers) * 3 * h;  // of a module: of both hidden states and before the head
  return matrices(m, experts) + over_layers(m, [&](const LayerSpec& layer) { return vectors(m, layer); }) + ends;
}

}  // namespace

double parameters(const Transformer& m) { return parameters_with(m, Experts::all); }
double active_parameters(const Transformer& m) { return parameters_with(m, Experts::used); }

Flops attention_flops(const Transformer& m, std::int64_t sequence) {
  const double tokens = double(sequence);
  return Flops(2 * tokens * tokens * over_layers(m, [](const LayerSpec& l) { return score_columns(l.mixer); }));
}

Flops model_flops(const Transformer& m, std::int64_t sequence, std::int64_t sequences, ModelWork work) {
  if (m.family == Family::mlp)
    return Flops(3 * double(m.layers) * 4 * double(m.hidden) * double(m.ffn) * double(sequence) * double(sequences));
  const double s = double(sequence), modules = double(m.mtp_layers);
  // Per token, forward: 2 FLOP per matrix entry; scores 2 s a d and values as many; logits 2 h V. Backward is twice
  // that: a gradient of either side of every product.
  const double met = matrices(m, Experts::used), routed = met - matrices(m, Experts::none);
  const double weights =
      2 * (met - (1 - work.kept) * routed) + (1 + modules) * 2 * double(m.hidden) * double(m.vocabulary);
  const double token = (work.frozen ? 2 : 3) * weights;
  return Flops((token * s + 3 * attention_flops(m, sequence).value()) * double(sequences));
}

std::int64_t vocabulary_slice(const Transformer& m, std::int64_t tensor) {
  const std::int64_t block = 128 * tensor;
  return 128 * ((m.vocabulary + block - 1) / block);
}

LocalShape local_shape(const Transformer& m, const LayerSpec& layer, const Shard& shard) {
  LocalShape l;
  const auto& mixer = layer.mixer;
  const std::int64_t t = shard.tensor;
  l.tokens = shard.tokens();
  l.hidden = m.hidden;
  l.heads = std::max<std::int64_t>(1, mixer.heads / t);
  l.head_dim = mixer.head_dim;
  l.query = mixer.heads * mixer.head_dim / t;
  // With fewer key-value heads than tensor ranks, each rank keeps a copy of one.
  l.qkv = mixer.kv_heads >= t ? (mixer.heads + 2 * mixer.kv_heads) * mixer.head_dim / t : l.query + 2 * mixer.head_dim;
  l.ffn = layer.ffn.width / t;
  l.up = layer.ffn.up_projections() * layer.ffn.width / t;
  l.split_hidden = double(l.tokens) * double(m.hidden) / double(t);
  l.residual = double(l.tokens) * double(m.hidden) / double(shard.sequence_parallel ? t : 1);
  return l;
}

double accumulation_bytes(const Training& training, const Framework& framework, const Shard& shard) {
  const auto backwards = shard.microbatches * shard.pieces;
  if (backwards <= 1) return 0;
  // Fused: the GEMM's epilogue reads the buffer, the extra traffic is that one read. Otherwise read, read, write; into
  // a 2-byte buffer or a 4-byte one.
  const bool narrow = bytes_per_element(training.gradient_precision) <= 2;
  const double bytes = framework.fused_accumulation ? 2
                       : narrow                     ? framework.accumulate_bytes_fp16
                                                    : framework.accumulate_bytes_bf16;
  return bytes * (1 - 1 / double(backwards));
}

}  // namespace rehearsal::models
