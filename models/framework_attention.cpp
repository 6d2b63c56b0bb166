// Attention as frameworks run it: one fused kernel, or products and a softmax over scores in memory.
#include "models/framework_rewrite.hpp"

#include <algorithm>
#include <utility>

namespace rehearsal::models {

void FrameworkRewrite::forward_attention(const Operator& op) {
  if (run_.shard.context > 1) return context_attention(op, false);
  if (run_.shard.pieces > 1) return piece_forward(op);
  const auto& shard = run_.shard;
  const Operands heads = attended(op);
  const auto with = [&](std::initializer_list<Operand> more) {
    auto all = heads;
    all.insert(all.end(), more);
    return all;
  };
  auto& list = part_.forward;
  if (flash()) {
    state_ = value(4 * double(local_.tokens * local_.heads));  // an fp32 log-sum-exp per query and head
    list.push_back({"attention", fused_attention(false), with({write(op.out[0]), write(*state_)})});
    return;
  }
  const Index raw = value(element_ * scores_);
  state_ = value(element_ * scores_);
  list.push_back(batched("scores", shard.sequence, local_.head_dim, with({write(raw)})));  // also when causal
  Operands softmax{read(raw), write(*state_)};
  dropped_ = state_;
  const bool in_fp32 = run_.training.kernels == Kernels::unfused && !run_.framework.fused_softmax && element_ < 4;
  if (in_fp32) {  // and a copy of it in 16 bits
    part_.values[*state_].size = bytes(4 * scores_);
    dropped_ = value(element_ * scores_);
    softmax.push_back(write(*dropped_));
  }
  if (const auto dropout = mask(scores_)) {
    score_mask_ = dropout;
    dropped_ = value(element_ * scores_);
    softmax.push_back(write(*dropout)), softmax.push_back(write(*dropped_));
  }
  list.push_back(traffic(run_.framework.dropout ? "softmax+dropout" : "softmax", cost_.scores.bytes * scores_,
                         cost_.scores.kernels, false, std::move(softmax)));
  list.push_back(batched("values", local_.head_dim, shard.sequence, with({read(*dropped_), write(op.out[0])})));
}

void FrameworkRewrite::backward_attention(const Operator& op) {
  if (run_.shard.context > 1) return context_attention(op, true);
  if (run_.shard.pieces > 1) return piece_backward(op);
  const auto& shard = run_.shard;
  auto& list = part_.input_gradient_steps;
  Operands operands{read(*gradients_[op.out[0]])};
  const Operands seen = attended(op), made = gradients_of_attended(op);
  operands.insert(operands.end(), seen.begin(), seen.end());
  const auto with = [&](std::initializer_list<Operand> more, bool all) {
    auto list_of = operands;
    list_of.insert(list_of.end(), more);
    if (all) list_of.insert(list_of.end(), made.begin(), made.end());
    return list_of;
  };
  if (flash()) {
    list.push_back({"attention gradient", fused_attention(true), with({read(op.out[0]), read(*state_)}, true)});
    return;
  }
  const Index ddropped = value(element_ * scores_),
              dscores = value(element_ * scores_);  // each product has two gradients
  list.push_back(batched("values gradient", local_.head_dim, shard.sequence, with({write(ddropped)}, false)));
  list.push_back(batched("values gradient", local_.head_dim, shard.sequence, with({read(*dropped_)}, true)));
  Operands softmax{read(ddropped), read(*state_), write(dscores)};
  if (score_mask_) softmax.push_back(read(*score_mask_));
  list.push_back(
      traffic("softmax gradient", back_.scores.bytes * scores_, back_.scores.kernels, true, std::move(softmax)));
  for (int i = 0; i < 2; ++i)
    list.push_back(batched("scores gradient", shard.sequence, local_.head_dim, with({read(dscores)}, true)));
}

FrameworkRewrite::Operands FrameworkRewrite::attended(const Operator& op) const {
  Operands all;
  for (const auto v : op.in) all.push_back(read(v));
  return all;
}
// Gradients of queries, keys and values.
FrameworkRewrite::Operands FrameworkRewrite::gradients_of_attended(const Operator& op) {
  Operands made;
  for (const auto v : op.in) made.push_back(write(gradient_of(v)));
  return made;
}

FusedAttention FrameworkRewrite::fused_attention(bool backward) const {
  const auto& shard = run_.shard;
  const auto& mixer = layer_.mixer;
  const std::int64_t values = mixer.mla || mixer.value_columns > 0 ? mixer.value_dim() : 0;
  const auto precision = element_ > 2 ? run_.training.precision : Precision::bf16;
  FusedAttention kernel{shard.micro_batch,    local_.heads, shard.sequence, shard.sequence, mixer.score_dim(),
                        run_.training.causal, backward,     values,         precision};
  kernel.seen = mixer.chunk > 0 ? mixer.chunk : mixer.seen_at_most(), kernel.chunked = mixer.chunk > 0;
  kernel.share = shard.attended;
  return kernel;
}

// Latent heads are split and joined again: one and a half times their columns, read and written.
Moved FrameworkRewrite::rotation_traffic() const {
  const auto& m = layer_.mixer;
  const double rows = double(local_.tokens);
  if (m.mla) return 1.5 * 2 * rows * double(local_.heads * (2 * m.score_dim() + m.value_dim()));
  // transformers' apply_rotary_pos_emb, of queries and keys: times cosines 4, half of it negated 2, both halves joined
  // 4, times sines 4, sum 6; rows of cosines and sines are the same for all heads.
  if (eager_rotation()) return (12 + spread(8, true)) * (rows * double(local_.query + local_.keys));
  if (run_.model.is_moe()) return 4 * rows * double(local_.query + local_.keys);
  return fused_ * (llama() ? 18 : 12) * local_.split_hidden;
}

// Transposes, and column sums for the bias gradients: 2 bytes read of f + 3h columns. Of a rotation operation by
// operation: of both products 4 each, negated 2, of either half a cleared array 2 and a copy 2, their sum 6, and that
// of both branches 6.
void FrameworkRewrite::backward_rotate(const Operator& op) {
  const auto& l = local_;
  const bool biases = !run_.model.is_moe() && !layer_.mixer.mla && !eager_rotation();
  const Moved moved = biases ? fused_ * (12 * l.split_hidden + 2 * (double(l.tokens * l.ffn) + 3 * l.split_hidden))
                      : eager_rotation() ? (22 + spread(8, true)) * (double(l.tokens) * double(l.query + l.keys))
                                         : 1.5 * rotation_traffic();
  Operands operands;
  for (const auto v : op.out)
    if (gradients_[v] && std::find(op.in.begin(), op.in.end(), v) == op.in.end())
      operands.push_back(read(*gradients_[v]));
  for (const auto v : op.in) operands.push_back(write(gradient_of(v)));
  if (const auto held = between_.find(op.out[0]); held != between_.end()) operands.push_back(read(held->second));
  part_.input_gradient_steps.push_back(
      traffic("transpose and bias gradients", moved, run_.compiled() ? 1 : 7, true, std::move(operands)));
}

}  // namespace rehearsal::models
