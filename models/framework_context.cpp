// Attention of a sequence that is split over the context group: c ranks with s/c tokens each; only attention sees other
// ranks' tokens. Keys and values travel around (Ring Attention, 2310.01889; Megatron-Core's "p2p"), are gathered (Llama
// 3, 2407.21783, section 3.3.2), or heads are split instead meanwhile (Ulysses, 2309.14509).
//
// A causal mask leaves rank i of the sequence in order i + 1/2 blocks of s/c x s/c scores. Balanced, each rank has
// piece i and piece 2c - 1 - i of 2c, and c half blocks: its own, crossed by the diagonal, and with each other rank
// either all queries with the earlier half of the keys or the later half of the queries with all keys. Each is priced
// as a block with a diagonal: as many scores, and counted whole where masks are not discounted. Every rank counts as
// busy as the busiest one, the last.
#include <array>
#include <utility>

#include "base/error.hpp"
#include "models/framework_rewrite.hpp"

namespace rehearsal::models {
namespace {

// Bytes per element to add a part of one block to an fp32 sum, besides reading the part itself: 4 read and 4 written.
constexpr double kAddPart = 4 + 4;

}  // namespace

void FrameworkRewrite::context_attention(const Operator& op, bool back) {
  INVARIANT(flash(), "scores of a cut sequence are never in memory");
  switch (run_.training.context) {
    case ContextKind::ring:
      return back ? ring_backward(op) : ring_forward(op);
    case ContextKind::all_gather:
      return gather_context(op, back);
    case ContextKind::all_to_all:
      return exchange_heads(op, back);
  }
}

// Columns of the keys of all heads here, or of their values. Each latent head has its own.
double FrameworkRewrite::context_columns(bool keys) const {
  const auto& m = layer_.mixer;
  if (m.mla) return double(local_.heads * (keys ? m.score_dim() : m.value_dim()));
  return double(keys ? local_.keys : local_.values);
}

// All queries here with `keys` keys.
FusedAttention FrameworkRewrite::context_block(std::int64_t keys, bool causal, bool backward) const {
  auto block = fused_attention(backward);
  block.queries = run_.shard.sequence / run_.shard.context, block.keys = keys, block.causal = causal;
  return block;
}

FusedAttention FrameworkRewrite::ring_block(std::int64_t step, bool backward) const {
  const auto& training = run_.training;
  return context_block(run_.shard.sequence / run_.shard.context,
                       training.causal && (training.context_balance || step == 0), backward);
}

// While attention works on a block, the next keys and values arrive in the other one of two buffers.
void FrameworkRewrite::ring_forward(const Operator& op) {
  const auto c = run_.shard.context;
  const double rows = double(local_.tokens), results = double(block_.values[op.out[0]].elements);
  const double travels = element_ * rows * (context_columns(true) + context_columns(false));
  const std::array buffers{value(travels, Value::Holds::gathered), value(travels, Value::Holds::gathered)};
  const Index sum = value(4 * results), part = value(element_ * results);
  state_ = value(4 * rows * double(local_.heads));  // an fp32 log-sum-exp per query and head
  auto& list = part_.forward;
  for (std::int64_t i = 0; i < c; ++i) {
    const auto block = ring_block(i, false);
    const bool last = i + 1 == c;
    auto operands = attended(op);
    if (i > 0) operands.push_back(read(buffers[std::size_t(i - 1) % 2]));
    if (!last) operands.push_back(write(buffers[std::size_t(i) % 2]));
    operands.push_back(write(i > 0 ? part : sum)), operands.push_back(write(*state_));
    Step step{"attention", block, std::move(operands)};
    if (!last) step.what = OverlappedKernel{block, 1, {CollectiveKind::shift, Axis::context, bytes(travels)}};
    list.push_back(std::move(step));
    if (i > 0)  // by their log-sum-exps
      list.push_back(plain("attention sum", (element_ + kAddPart) * results, 1,
                           {read(part), write(sum), write(*state_), last ? write(op.out[0]) : read(part)}));
  }
}

// Keys and values travel once more, together with the gradients of those that were there before.
void FrameworkRewrite::ring_backward(const Operator& op) {
  const auto c = run_.shard.context;
  const double rows = double(local_.tokens), queries = rows * double(local_.heads * layer_.mixer.score_dim());
  const double keys = rows * (context_columns(true) + context_columns(false)), travels = 2 * element_ * keys;
  const std::array buffers{value(travels, Value::Holds::gathered), value(travels, Value::Holds::gathered)};
  const Index sum = value(4 * queries), part = value(element_ * (queries + keys));
  const Operands seen = attended(op), made = gradients_of_attended(op);
  auto& list = part_.input_gradient_steps;
  for (std::int64_t i = 0; i < c; ++i) {
    const auto block = ring_block(i, true);
    const bool last = i + 1 == c;
    Operands operands{read(*gradients_[op.out[0]]), read(op.out[0]), read(*state_)};
    operands.insert(operands.end(), seen.begin(), seen.end());
    if (i > 0) operands.push_back(read(buffers[std::size_t(i - 1) % 2]));
    if (!last) operands.push_back(write(buffers[std::size_t(i) % 2]));
    operands.push_back(write(sum)), operands.push_back(write(part));
    Step step{"attention gradient", block, std::move(operands)};
    if (!last) step.what = OverlappedKernel{block, 1, {CollectiveKind::shift, Axis::context, bytes(travels)}};
    list.push_back(std::move(step));
    if (i == 0) continue;
    const double met = block.causal ? .5 : 1;  // of the keys of this block
    Operands added{read(part), write(sum)};
    if (last) added.insert(added.end(), made.begin(), made.end());
    list.push_back(
        plain("attention gradient sum", (element_ + kAddPart) * (queries + met * keys), 1, std::move(added)));
  }
}

// Gathered values are gathered again for the backward, which scatters the gradients. One kernel has all keys that the
// last rank sees: exactly as many scores as it has.
void FrameworkRewrite::gather_context(const Operator& op, bool back) {
  const std::int64_t s = run_.shard.sequence, own = s / run_.shard.context;
  const bool causal = run_.training.causal, balanced = run_.training.context_balance;
  auto block = causal && !balanced ? context_block(s - own / 2, false, back) : context_block(s, causal, back);
  block.counted_keys = s;
  const double all =
      element_ * double(local_.tokens) * double(run_.shard.context) * (context_columns(true) + context_columns(false));
  const Operands seen = attended(op);
  const auto with = [&](Operands operands) {
    operands.insert(operands.end(), seen.begin(), seen.end());
    return operands;
  };
  const auto travels = [&](std::string_view name, CollectiveKind kind, Operands operands) {
    return Step{name, GroupCollective{kind, Axis::context, bytes(all)}, std::move(operands)};
  };
  auto& list = back ? part_.input_gradient_steps : part_.forward;
  const Index gathered = value(all, Value::Holds::gathered);
  list.push_back(travels("context all-gather", CollectiveKind::all_gather, with({write(gathered)})));
  if (!back) {
    state_ = value(4 * double(local_.tokens * local_.heads));
    list.push_back({"attention", block, with({read(gathered), write(op.out[0]), write(*state_)})});
    return;
  }
  const Index gradients = value(all, Value::Holds::gathered);
  const Operands made = gradients_of_attended(op);
  auto operands =
      with({read(*gradients_[op.out[0]]), read(op.out[0]), read(*state_), read(gathered), write(gradients)});
  operands.insert(operands.end(), made.begin(), made.end());
  list.push_back({"attention gradient", block, std::move(operands)});
  Operands scattered{read(gradients)};
  scattered.insert(scattered.end(), made.begin(), made.end());
  list.push_back(travels("context reduce-scatter", CollectiveKind::reduce_scatter, std::move(scattered)));
}

// Each rank attends to all tokens with a c-th of the heads. With fewer keys than ranks, several ranks get a copy. The
// output of the exchange is kept for the backward, not its input.
void FrameworkRewrite::exchange_heads(const Operator& op, bool back) {
  const auto c = run_.shard.context;
  const double rows = double(local_.tokens), heads = double(local_.heads);
  const double keys = layer_.mixer.mla ? heads : context_columns(true) / double(local_.head_dim);
  const double copies = keys < double(c) ? double(c) / keys : 1;
  const std::array sizes{
      element_ * rows * heads * double(layer_.mixer.score_dim()), element_ * rows * context_columns(true) * copies,
      element_ * rows * context_columns(false) * copies, element_ * double(block_.values[op.out[0]].elements)};
  constexpr std::array kNames{"context all-to-all of queries", "context all-to-all of keys",
                              "context all-to-all of values", "context all-to-all of results"};
  auto& list = back ? part_.input_gradient_steps : part_.forward;
  const auto exchange = [&](std::size_t i, Operands operands) {
    list.push_back(
        {kNames[i], GroupCollective{CollectiveKind::all_to_all, Axis::context, bytes(sizes[i])}, std::move(operands)});
  };
  auto kernel = fused_attention(back);
  kernel.heads /= c;
  if (!back) {
    state_ = value(4 * rows * heads);
    whole_heads_.clear();
    for (const double size : sizes) whole_heads_.push_back(read(value(size)));
    for (std::size_t i = 0; i < 3; ++i) {
      auto operands = attended(op);
      operands.push_back(write(whole_heads_[i].index));
      exchange(i, std::move(operands));
    }
    auto operands = whole_heads_;
    operands.back().written = true;
    operands.push_back(write(*state_));
    list.push_back({"attention", kernel, std::move(operands)});
    exchange(3, {whole_heads_[3], write(op.out[0])});
    return;
  }
  std::vector<Index> gradients;
  for (const double size : sizes) gradients.push_back(value(size));
  exchange(3, {read(*gradients_[op.out[0]]), write(gradients[3])});
  auto operands = whole_heads_;
  operands.push_back(read(*state_)), operands.push_back(read(gradients[3]));
  for (std::size_t i = 0; i < 3; ++i) operands.push_back(write(gradients[i]));
  list.push_back({"attention gradient", kernel, std::move(operands)});
  for (std::size_t i = 0; i < 3; ++i) {
    auto made = gradients_of_attended(op);
    made.push_back(read(gradients[i]));
    exchange(i, std::move(made));
  }
}

}  // namespace rehearsal::models
