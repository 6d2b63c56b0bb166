// Head and cross-entropy of some tokens after those of others, so that the logits of one chunk alone are there: forward
// and backward of a chunk in turn, where the backward of the network begins (pytorch/torchtitan,
// torchtitan/components/loss.py, ChunkedCELoss). Rows of the input's gradient are written where they belong; the
// gradient of the weights is a sum in fp32 anyway. Both are those of all tokens at once, but for the order of the sum.
//
// The gradient of the head's weights comes with that of its input, even where schedules split the backward: it needs
// the gradient of the logits, and no chunk waits for another pass.
#include <algorithm>

#include "models/rehearsal_rewrite.hpp"
#include "models/shapes.hpp"

namespace rehearsal::models {

const Operator* KernelRewrite::chunked_head() const {
  const auto& all = block_.operators;
  if (shape_.loss_chunks == 0 || all.empty() || all.back().kind != Kind::loss) return nullptr;
  const auto makes_logits = [&](const Operator& op) { return !op.out.empty() && op.out[0] == all.back().in[0]; };
  const auto head = std::find_if(all.begin(), all.end(), makes_logits);
  return head == all.end() ? nullptr : &*head;
}

bool KernelRewrite::in_chunks(const Operator& op) const {
  const auto* head = chunked_head();
  return head && (&op == head || op.kind == Kind::loss);
}

void KernelRewrite::loss_of_chunks() {
  const Operator& head = *chunked_head();
  Steps& I = part_.input_gradient_steps;
  const Index x = head.in[0], weights = head.parameters[0];
  const std::int64_t T = rows(head.out[0]), n = columns(head.out[0]), k = columns(x);
  const std::int64_t t = shape_.shard.tensor, all = model_.vocabulary;
  const Index seen = seen_again(I, x), dx = like(x);
  const std::int64_t each = rows_of_chunk(T, shape_.loss_chunks);
  for (std::int64_t first = 0; first < T; first += each) {
    const std::int64_t own = std::min(each, T - first);
    const auto from = [&](std::size_t operand) { std::get<Kernel>(I.back().what).offsets[operand] = first * k; };
    const Index logits = value(own * n), parts = value(3 * own * t), levels = value(own);
    kernel(I, KernelKind::linear, {own, n, k}, {read(seen), weight(weights), write(logits)}), from(0);
    kernel(I, KernelKind::cross_entropy_local, {own, n, all, t, first}, {read(logits), write(parts)});
    if (t > 1) collective(I, CollectiveKind::all_gather, parts);
    kernel(I, KernelKind::cross_entropy, {own, n, all, t, total_}, {read(parts), write(levels), sum_of_losses()});
    kernel(I, KernelKind::cross_entropy_gradient, {own, n, all, total_, first}, {read(levels), write(logits)});
    kernel(I, KernelKind::linear_input_gradient, {own, n, k}, {read(logits), weight(weights), write(dx)}), from(2);
    kernel(I, KernelKind::linear_weight_gradient, {own, n, k}, {read(logits), read(seen), gradient(weights)}), from(1);
  }
  add_gradient(x, dx);
}

}  // namespace rehearsal::models
