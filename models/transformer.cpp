#include "models/transformer.hpp"

#include <algorithm>

#include "models/shapes.hpp"

namespace rehearsal::models {

const char* name(LayerKind kind) {
  switch (kind) {
    case LayerKind::dense:
      return "dense";
    case LayerKind::experts:
      return "experts";
    case LayerKind::encoder:
      return "encoder";
    case LayerKind::decoder:
      return "decoder";
  }
  return "";
}

// Entries of the weight matrices of attention: h (a + 2 kv) d + a d h. Latent: queries h q + q a (d + r) or h a (d +
// r); keys and values h (c + r) + c a (d + v); a v h.
double attention_matrices(const Transformer& m) {
  const double h = double(m.hidden), a = double(m.heads);
  if (!m.mla) return h * double((m.heads + 2 * m.kv_heads) * m.head_dim) + double(m.heads * m.head_dim) * h;
  const double q = double(m.mla->query_rank), c = double(m.mla->kv_rank), r = double(m.mla->rotary_dim);
  const double d = double(m.mla->head_dim), v = double(m.mla->value_dim);
  return (q > 0 ? h * q + q * a * (d + r) : h * a * (d + r)) + h * (c + r) + c * a * (d + v) + a * v * h;
}

// Entries of the feed-forward part: f h (2 + gates); with experts those of `experts` of them, of shared ones, and of
// the router.
double ffn_matrices(const Transformer& m, LayerKind kind, std::int64_t experts) {
  const double h = double(m.hidden), n = m.ffn_kind == FfnKind::swiglu ? 3 : 2;
  if (kind != LayerKind::experts) return n * h * double(m.ffn);
  return n * h * double(experts * m.expert_ffn + m.shared_ffn) + h * double(m.experts);
}

namespace {

// Sum of `of` over all layers, those of multi-token prediction included, by their kinds.
template <class OfKind>
double over_layers(const Transformer& m, OfKind&& of) {
  double sum = double(m.mtp_layers) * of(m.kind(m.layers));
  for (const auto kind : kLayerKindTable)
    if (const auto layers = m.layers_of(kind); layers > 0) sum += double(layers) * of(kind);
  return sum;
}

// Entries of the weight matrices that a token uses between the ends, and of those that join two hidden states.
double met_matrices(const Transformer& m, std::int64_t experts) {
  const double h = double(m.hidden);
  return double(m.mtp_layers) * 2 * h * h +
         over_layers(m, [&](LayerKind kind) { return attention_matrices(m) + ffn_matrices(m, kind, experts); });
}

double parameters_with(const Transformer& m, std::int64_t experts) {
  if (m.family == Family::mlp)
    return double(m.layers) * (2 * double(m.hidden) * double(m.ffn) + double(m.ffn) + double(m.hidden));
  const double h = double(m.hidden), q = double(m.heads * m.head_dim), kv = double(m.kv_heads * m.head_dim);
  double layer = 0, ends = double(m.vocabulary) * h * (m.tie_embeddings ? 1 : 2);
  if (m.is_gpt()) {
    const double up = double(m.ffn) * (m.ffn_kind == FfnKind::swiglu ? 2 : 1);
    layer += (q + 2 * kv) + h + up + h  // biases of the four linear layers: 9 h when f = 4 h
             + 4 * h;                   // two layer norms, weight and bias: 13 h in all
    ends += (m.learned_positions ? double(m.sequence) * h : 0) + (m.embedding_norm ? 4 : 2) * h;  // norms: 2 h each
  } else {
    layer += 2 * h + (m.mla ? double(m.mla->query_rank + m.mla->kv_rank) : 0);  // norms
    ends += h + double(m.mtp_layers) * 3 * h;  // of a module: of both hidden states and before the head
  }
  return met_matrices(m, experts) + over_layers(m, [&](LayerKind) { return layer; }) + ends;
}

}  // namespace

double parameters(const Transformer& m) { return parameters_with(m, m.experts); }
double active_parameters(const Transformer& m) { return parameters_with(m, m.experts_per_token); }

Flops model_flops(const Transformer& m, std::int64_t sequence, std::int64_t sequences, ModelWork work) {
  if (m.family == Family::mlp)
    return Flops(3 * double(m.layers) * 4 * double(m.hidden) * double(m.ffn) * double(sequence) * double(sequences));
  const double s = double(sequence), modules = double(m.mtp_layers);
  // Per token, forward: 2 FLOP per matrix entry; scores 2 s a d and values as many; logits 2 h V. Backward is twice
  // that: a gradient of either side of every product.
  const double attention = 2 * s * double(m.heads * (m.score_dim() + m.value_dim()));
  const double met = met_matrices(m, m.experts_per_token), routed = met - met_matrices(m, 0);
  const double weights =
      2 * (met - (1 - work.kept) * routed) + (1 + modules) * 2 * double(m.hidden) * double(m.vocabulary);
  const double token = (work.frozen ? 2 : 3) * weights + 3 * (double(m.layers) + modules) * attention;
  return Flops(token * s * double(sequences));
}

std::int64_t vocabulary_slice(const Transformer& m, std::int64_t tensor) {
  const std::int64_t block = 128 * tensor;
  return 128 * ((m.vocabulary + block - 1) / block);
}

LocalShape local_shape(const Transformer& m, const Shard& shard) {
  LocalShape l;
  const std::int64_t t = shard.tensor;
  l.tokens = shard.tokens();
  l.hidden = m.hidden;
  l.heads = std::max<std::int64_t>(1, m.heads / t);
  l.head_dim = m.head_dim;
  l.query = m.heads * m.head_dim / t;
  // With fewer key-value heads than tensor ranks, each rank keeps a copy of one.
  l.qkv = m.kv_heads >= t ? (m.heads + 2 * m.kv_heads) * m.head_dim / t : l.query + 2 * m.head_dim;
  l.ffn = m.ffn / t;
  l.up = (m.ffn_kind == FfnKind::swiglu ? 2 : 1) * m.ffn / t;
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
