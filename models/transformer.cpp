#include "models/transformer.hpp"

#include <algorithm>
#include <cmath>

#include "models/recurrent.hpp"
#include "models/shapes.hpp"

namespace rehearsal::models {

// h (a + 2 kv) d + a d h. Latent: queries h q + q a (d + r) or h a (d + r); keys and values h (c + r) + c a (d + v); a
// v h.
double mixer_matrices(std::int64_t hidden, const Mixer& mixer) {
  if (mixer.kind == MixerKind::none) return 0;
  if (mixer.recurrent()) return recurrent_matrices(hidden, mixer);
  const double h = double(hidden), a = double(mixer.heads), gate = mixer.gate ? h * double(mixer.values()) : 0;
  // Of an indexer: its queries, its one key, and a weight for each head.
  const double queries_of = mixer.mla && mixer.mla->query_rank > 0 ? double(mixer.mla->query_rank) : h;
  const double index =
      queries_of * double(mixer.index_heads * mixer.index_dim) + h * double(mixer.index_dim + mixer.index_heads);
  if (!mixer.mla) {
    const auto values = mixer.keys_as_values ? 0 : mixer.value_dim();
    const auto columns = mixer.heads * mixer.head_dim + mixer.kv_heads * (mixer.head_dim + values);
    return h * double(columns) + double(mixer.values()) * h + gate + index;
  }
  const auto& mla = *mixer.mla;
  const double q = double(mla.query_rank), c = double(mla.kv_rank), r = double(mla.rotary_dim);
  const double d = double(mla.head_dim), v = double(mla.value_dim);
  return (q > 0 ? h * q + q * a * (d + r) : h * a * (d + r)) + h * (c + r) + c * a * (d + v) + a * v * h + gate + index;
}

// f h (2 + gates); with experts those of each of them, of shared ones, and of the router.
double ffn_matrices(std::int64_t hidden, const FeedForward& ffn, Experts experts) {
  const double h = double(hidden), n = double(ffn.up_projections() + 1);
  if (!ffn.has_experts()) return n * h * double(ffn.width);
  const auto counted = experts == Experts::all ? ffn.experts : experts == Experts::used ? ffn.experts_per_token : 0;
  const double inside = ffn.latent > 0 ? double(ffn.latent) : h;
  return n * inside * double(counted * ffn.expert_width) + n * h * double(ffn.shared_width) + h * double(ffn.experts) +
         2 * h * double(ffn.latent);
}

// Keys that a query sees on average, where a mask that hides later ones hides none.
static double keys_seen(const Mixer& mixer, double sequence) {
  if (const double c = double(mixer.chunk); c > 0 && c < sequence) {
    const double whole = std::floor(sequence / c), rest = sequence - whole * c;
    return (whole * c * c + rest * rest) / sequence;
  }
  const double most = double(mixer.seen_at_most());
  return most > 0 ? std::min(most, sequence) : sequence;
}

double mixing_flops(const Mixer& mixer, std::int64_t sequence) {
  const double s = double(sequence);
  if (mixer.kind != MixerKind::attention) return 0;
  const double index = double(mixer.index_heads * mixer.index_dim), chosen = std::min(double(mixer.sparse), s);
  return 2 * s *
         (keys_seen(mixer, s) * double(mixer.heads * (mixer.score_dim() + mixer.value_dim())) +
          (s / 2 + 2 * chosen) / 3 * index);
}

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
  const auto& mixer = layer.mixer;
  const double norms = double((mixer.kind != MixerKind::none) + !layer.ffn.nothing());
  if (mixer.recurrent()) return norms * h + recurrent_vectors(mixer);
  if (!m.is_gpt()) {
    const auto& mla = mixer.mla;
    return norms * h + (mla ? double(mla->query_rank + mla->kv_rank) : 0) + double(mixer.sinks ? mixer.heads : 0) +
           double(mixer.qk_norm ? 2 * mixer.head_dim : 0) + double(2 * mixer.index_dim);
  }
  const double q = double(mixer.heads * mixer.head_dim), kv = double(mixer.kv_heads * mixer.head_dim);
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
  return matrices(m, experts) + over_layers(m, [&](const LayerSpec& layer) { return vectors(m, layer); }) + ends +
         tower_parameters(m);
}

}  // namespace

double parameters_of_layers(const Transformer& m) {
  return over_layers(m, [&](const LayerSpec& layer) {
    return mixer_matrices(m.hidden, layer.mixer) + ffn_matrices(m.hidden, layer.ffn, Experts::all) + vectors(m, layer);
  });
}

double parameters(const Transformer& m) { return parameters_with(m, Experts::all); }
double active_parameters(const Transformer& m) { return parameters_with(m, Experts::used); }

Flops attention_flops(const Transformer& m, std::int64_t sequence) {
  return Flops(over_layers(m, [&](const LayerSpec& layer) { return mixing_flops(layer.mixer, sequence); }));
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
  const double attention = work.attended * attention_flops(m, sequence).value();
  const auto tower = tower_flops(m);
  const bool learns = m.vision && !m.vision->frozen && !work.frozen;
  const double pictures = (learns ? 3 : 1) * (tower.weights + tower.attention) + (learns ? 2 : 1) * tower.patches;
  return Flops((token * s * work.useful + 3 * attention + pictures) * double(sequences));
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
  const std::int64_t here = std::max<std::int64_t>(mixer.kv_heads, t);
  l.keys = here * mixer.head_dim / t, l.values = here * (mixer.mla ? mixer.head_dim : mixer.value_dim()) / t;
  l.qkv = l.query + l.keys + (mixer.keys_as_values ? 0 : l.values);
  l.ffn = layer.ffn.width / t;
  l.up = layer.ffn.up_projections() * layer.ffn.width / t;
  l.split_hidden = double(l.tokens) * double(m.hidden) / double(t);
  l.residual = double(l.tokens) * double(m.hidden) / double(shard.sequence_parallel ? t : 1);
  return l;
}

// Fused: the GEMM's epilogue reads the buffer, the extra traffic is that one read. Otherwise read, read, write; into a
// 2-byte buffer or a 4-byte one.
double addition_bytes(const Training& training, const Framework& framework) {
  const bool narrow = bytes_per_element(training.gradient_precision) <= 2;
  return framework.fused_accumulation ? 2 : narrow ? framework.accumulate_bytes_fp16 : framework.accumulate_bytes_bf16;
}

double accumulation_bytes(const Training& training, const Framework& framework, const Shard& shard) {
  const auto backwards = shard.microbatches * shard.pieces;
  return backwards <= 1 ? 0 : addition_bytes(training, framework) * (1 - 1 / double(backwards));
}

}  // namespace rehearsal::models
