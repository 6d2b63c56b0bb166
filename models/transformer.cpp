#include "models/transformer.hpp"

#include <algorithm>

#include "models/operators.hpp"
#include "models/shapes.hpp"

namespace rehearsal::models {
namespace {

// Entries of the weight matrices of one layer: h (a + 2 kv) d + a d h + h f (1 + gates) + f h.
double layer_matrices(const Transformer& m) {
  const double h = double(m.hidden), q = double(m.heads * m.head_dim), kv = double(m.kv_heads * m.head_dim);
  const double ffn_matrices = m.ffn_kind == FfnKind::swiglu ? 3 : 2;
  return h * (q + 2 * kv) + q * h + ffn_matrices * h * double(m.ffn);
}

}  // namespace

double parameters(const Transformer& m) {
  if (m.family == Family::mlp)
    return double(m.layers) * (2 * double(m.hidden) * double(m.ffn) + double(m.ffn) + double(m.hidden));
  const double h = double(m.hidden), q = double(m.heads * m.head_dim), kv = double(m.kv_heads * m.head_dim);
  double layer = layer_matrices(m), ends = double(m.vocabulary) * h * (m.tie_embeddings ? 1 : 2);
  if (m.family == Family::gpt) {
    const double up = double(m.ffn) * (m.ffn_kind == FfnKind::swiglu ? 2 : 1);
    layer += (q + 2 * kv) + h + up + h  // biases of the four linear layers: 9 h when f = 4 h
             + 4 * h;                   // two layer norms, weight and bias: 13 h in all
    ends += double(m.sequence) * h;     // learned positions
    // The final norm's 2 h are left out, as in the published formula; 1e-7 of a 1 B model.
  } else {
    layer += 2 * h;
    ends += h;
  }
  return double(m.layers) * layer + ends;
}

Flops model_flops(const Transformer& m, std::int64_t sequence, std::int64_t sequences) {
  if (m.family == Family::mlp)
    return Flops(3 * double(m.layers) * 4 * double(m.hidden) * double(m.ffn) * double(sequence) * double(sequences));
  const double q = double(m.heads * m.head_dim), s = double(sequence);
  // Per token, forward: 2 FLOP per matrix entry; scores and values 2 s a d each; logits 2 h V. Backward is twice that.
  const double layer = 2 * layer_matrices(m) + 4 * s * q;
  const double forward = double(m.layers) * layer + 2 * double(m.hidden) * double(m.vocabulary);
  return Flops(3 * forward * s * double(sequences));
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
  // With fewer key-value heads than tensor ranks each rank keeps a copy of one.
  l.qkv = m.kv_heads >= t ? (m.heads + 2 * m.kv_heads) * m.head_dim / t : l.query + 2 * m.head_dim;
  l.ffn = m.ffn / t;
  l.up = (m.ffn_kind == FfnKind::swiglu ? 2 : 1) * m.ffn / t;
  l.split_hidden = double(l.tokens) * double(m.hidden) / double(t);
  l.residual = double(l.tokens) * double(m.hidden) / double(shard.sequence_parallel ? t : 1);
  return l;
}

double accumulation_bytes(const Training& training, const Software& software, const Shard& shard) {
  if (shard.microbatches <= 1) return 0;
  // Fused: the GEMM's epilogue reads the buffer, the extra traffic is that one read. Otherwise read, read, write; into
  // a 2-byte buffer or a 4-byte one.
  const bool narrow = bytes_per_element(training.gradient_precision) <= 2;
  const double bytes = software.fused_accumulation ? 2
                       : narrow                    ? software.accumulate_bytes_fp16
                                                   : software.accumulate_bytes_bf16;
  return bytes * (1 - 1 / double(shard.microbatches));
}

}  // namespace rehearsal::models
