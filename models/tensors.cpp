#include "models/tensors.hpp"

#include <algorithm>
#include <utility>

#include "models/shapes.hpp"

namespace rehearsal::models {
namespace {

using List = std::vector<Bytes>;

// Tensors of these many bytes; those of none are none.
List tensors(std::initializer_list<double> sizes) {
  List list;
  for (const double size : sizes)
    if (size >= 1) list.push_back(bytes(size));
  return list;
}

}  // namespace

void append(std::vector<Bytes>& list, const std::vector<Bytes>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

Bytes sum(const std::vector<Bytes>& sizes) {
  Bytes total;
  for (const Bytes size : sizes) total += size;
  return total;
}

std::vector<Bytes> part_of(const std::vector<Bytes>& sizes, Bytes begin, Bytes end) {
  List part;
  Bytes at;
  for (const Bytes size : sizes) {
    const Bytes from = std::max(at, begin), to = std::min(at + size, end);
    if (from < to) part.push_back(to - from);
    at += size;
  }
  return part;
}

void add_layer_tensors(LayerWork& work, const Transformer& model, const Training& training, const Software& software,
                       const Shard& shard) {
  const LocalShape l = local_shape(model, shard);
  const double tokens = double(l.tokens), r = l.residual, whole = 2 * tokens * double(l.hidden);
  const double query = 2 * tokens * double(l.query), qkv = 2 * tokens * double(l.qkv), ffn = 2 * tokens * double(l.ffn);
  const bool llama = model.family == Family::llama, swiglu = model.ffn_kind == FfnKind::swiglu;
  const bool flash = training.attention == AttentionKind::flash;
  const double scores =
      flash ? 0 : double(shard.micro_batch * l.heads) * double(shard.sequence) * double(shard.sequence);
  const bool split = shard.tensor > 1, scattered = split && shard.sequence_parallel;

  // Everything a layer saves (Korthikanti 2205.05198 table 2), the likelier to be kept the earlier: input, attention
  // output, first MLP product, queries with keys and values; norms and masks; last what attention is recomputed for.
  const double mask = software.dropout ? r : 0;
  List all =
      tensors({2 * r, query, ffn, qkv, 2 * r, 2 * r, 2 * r, ffn, swiglu ? ffn : 0, llama ? query : 0, mask, mask});
  append(all, flash ? tensors({4 * tokens * double(l.heads)}) : tensors({2 * scores, scores, 2 * scores}));
  const Bytes expected = work.activations + work.recomputed;
  all = part_of(all, Bytes{}, expected);
  if (sum(all) < expected) all.push_back(expected - sum(all));  // of another count of the same layer, or rounding
  if (scattered && software.saves_gathered) {                   // inputs of the first GEMM of attention and of the MLP
    all.push_back(bytes(whole)), all.push_back(bytes(whole));
    (training.recompute == Recompute::none ? work.activations : work.recomputed) += bytes(2 * whole);
  }

  Tensors& t = work.tensors;
  t.saved = std::move(all);
  if (scattered) t.gathered = {bytes(whole)};
  // Forward: the sum before it is reduced or added; the scores before their softmax. A forward that keeps only its
  // input frees what it makes as it goes: at most the MLP's tensors, or those around the scores, are there at once.
  t.forward = tensors({whole, 2 * scores});
  if (training.recompute == Recompute::full)
    t.forward = flash ? tensors({whole, 2 * r, ffn, ffn, swiglu ? ffn : 0})
                      : tensors({whole, 2 * r, qkv, 2 * scores, 2 * scores});
  // Backward, beyond what was saved: in the MLP the gradient of the output, of the two factors of its inner product and
  // of its input (per product where the framework adds two of them up); in unfused attention the gradient of the
  // dropped-out scores, everything else by then in the place of what the MLP no longer needs.
  const double input = split ? whole : 0;
  const List mlp = tensors({2 * r, ffn, swiglu ? ffn : 0, input, swiglu && software.saves_gathered ? input : 0});
  const List attention = tensors({2 * scores});
  t.backward = sum(mlp) < sum(attention) ? attention : mlp;
}

// Of 2-byte logits a fp32 copy is made, and of that softmax or log-softmax, which is what the backward needs. Megatron
// turns it into the gradient in place and casts it. A training loop of torch holds the 2-byte logits, its model's
// output, until the backward has ended. Torch writes the gradient of the loss, then that of the logits; over a sliced
// vocabulary it does so by steps (torch.distributed's loss parallel): one fp32 array more in each pass. A fused kernel
// reads the 2-byte logits and writes their gradient, also in 2 bytes.
void add_head_tensors(LayerWork& work, const Transformer& model, const Software& software, const Shard& shard) {
  const LocalShape l = local_shape(model, shard);
  const double logits = double(l.tokens) * double(vocabulary_slice(model, shard.tensor));
  const double whole = 2 * double(l.tokens * l.hidden);
  const bool torch = software.loss == LossKernels::torch, split = shard.tensor > 1;
  const bool fused = software.loss == LossKernels::fused;
  const double stepwise = torch && split ? 4 * logits : 0;
  Tensors& t = work.tensors;
  t.loss = true;
  t.saved = tensors({2 * l.residual, 2 * l.residual, torch ? 2 * logits : 0, (fused ? 2 : 4) * logits});
  if (!fused) t.forward = tensors({torch ? 0 : 2 * logits, 4 * logits, stepwise});
  t.backward = torch ? tensors({4 * logits, 4 * logits, stepwise}) : tensors({2 * logits});
  append(t.backward, tensors({split ? whole : 0}));
  if (split && shard.sequence_parallel) t.gathered = {bytes(whole)};
  work.activations = sum(t.saved);
}

void add_embedding_tensors(LayerWork& work, const Transformer& model, const Shard& shard) {
  const LocalShape l = local_shape(model, shard);
  if (work.activations > Bytes{}) work.tensors.saved = {work.activations};
  work.tensors.forward = tensors({2 * double(l.tokens * l.hidden)});
  work.tensors.backward = tensors({2 * double(l.tokens * l.hidden)});
}

}  // namespace rehearsal::models
