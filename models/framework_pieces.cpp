// Attention of a sequence that is processed in pieces (Seq1F1B, arXiv 2406.03488): one kernel of the piece's queries
// with the keys and values of all pieces up to this one, in place where their forwards wrote them. A backward adds to
// sums of the gradients of earlier keys and values; it goes from the last piece to the first, so all later pieces have
// added theirs. Assumed, as no framework's recipe is known: nothing is copied, and the sums have 2 bytes.
#include <algorithm>

#include "models/framework_rewrite.hpp"

namespace rehearsal::models {
namespace {

constexpr double kAddTo = 2 + 2 + 2;  // bytes per element: a result of 2, the sum read and written

}  // namespace

// Exactly the scores that the mask leaves: all of earlier pieces, half of the piece's own.
FusedAttention FrameworkRewrite::piece_block(bool backward) const {
  auto block = fused_attention(backward);
  const std::int64_t own = run_.shard.sequence / run_.shard.pieces;
  block.queries = block.keys = own;
  if (run_.shard.piece > 0) block.keys = own * run_.shard.piece + own / 2, block.causal = false;
  block.counted_keys = own * (2 * run_.shard.piece + 1);  // of all pieces together the whole square
  return block;
}

double FrameworkRewrite::piece_of_keys() const {
  return double(local_.tokens) * (context_columns(true) + context_columns(false));
}

void FrameworkRewrite::piece_forward(const Operator& op) {
  state_ = value(4 * double(local_.tokens * local_.heads));
  auto operands = attended(op);
  operands.push_back(write(op.out[0])), operands.push_back(write(*state_));
  part_.forward.push_back({"attention", piece_block(false), std::move(operands)});
}

void FrameworkRewrite::piece_backward(const Operator& op) {
  const auto own = run_.shard.piece, last = run_.shard.pieces - 1;
  auto& list = part_.input_gradient_steps;
  const auto sum_of = [&](std::int64_t piece) {
    const Index sum = value(element_ * piece_of_keys());
    part_.carried.push_back(
        {.value = sum, .piece = piece, .gradient = true, .begins = own == last, .ends = own == piece});
    return sum;
  };
  Operands operands{read(*gradients_[op.out[0]]), read(op.out[0]), read(*state_)};
  for (const auto& more : {attended(op), gradients_of_attended(op)})
    operands.insert(operands.end(), more.begin(), more.end());
  if (own < last) operands.push_back(read(sum_of(own)));
  Operands sums;
  for (std::int64_t piece = 0; piece < own; ++piece)
    if (own == last) sums.push_back(write(sum_of(piece)));
  const Index made = value(element_ * piece_of_keys() * double(own));
  if (own > 0) operands.push_back(write(made)), sums.push_back(read(made));
  list.push_back({"attention gradient", piece_block(true), std::move(operands)});
  if (own > 0)
    list.push_back(plain("attention gradient sum", wide_ * kAddTo * piece_of_keys() * double(own), 1, std::move(sums)));
}

// Recomputation would restore keys and values only for the piece's own backward, but later pieces read them: they stay.
void FrameworkRewrite::keep_keys(const List& again) {
  if (run_.shard.pieces == 1) return;
  const auto at = [](List& list, std::string_view name) {
    return std::find_if(list.begin(), list.end(), [&](const Step& step) { return step.name == name; });
  };
  const auto forward = at(part_.forward, "attention");
  if (forward == part_.forward.end()) return;
  const auto writes = [&](const Step& step, Index v) {
    return std::any_of(step.operands.begin(), step.operands.end(),
                       [&](const Operand& o) { return o.written && o.index == v; });
  };
  const auto& seen = forward->operands;
  const bool dropped = std::any_of(again.begin(), again.end(), [&](const Step& step) {
    return std::any_of(seen.begin(), seen.end(), [&](const Operand& o) { return !o.written && writes(step, o.index); });
  });
  if (!dropped) return;
  const Index keys = value(element_ * piece_of_keys());
  part_.values[keys].stays = true;
  forward->operands.push_back(write(keys));
  at(part_.input_gradient_steps, "attention gradient")->operands.push_back(read(keys));
}

}  // namespace rehearsal::models
