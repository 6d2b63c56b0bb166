// Layers with experts by native kernels (Lepikhin et al., arXiv 2006.16668, section 2.2). Every expert has C slots for
// the rows of each rank of the expert group, so buffers and messages are known before routing: a rank fills sent[E, C,
// h]; an all-to-all sends block r, the slots of rank r's experts, to that rank, which receives [ranks, experts held, C,
// h]. The way back is the same all-to-all: it is its own inverse. Ranks that share an expert have a part of its columns
// each, gather each other's rows, and scatter the sums of their results.
#include <algorithm>
#include <cmath>

#include "models/rehearsal_rewrite.hpp"

namespace rehearsal::models {

// The experts of a row are distinct, so an expert gets at most all rows: that many slots drop none. With a capacity,
// the number is GShard's (section 2.2), for the rows of one rank and micro-batch.
std::int64_t KernelRewrite::slots() const {
  const std::int64_t rows = routed_rows();
  if (!shape_.capacity) return rows;
  const double mean = double(rows) * double(ffn().experts_per_token) / double(ffn().experts);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(*shape_.capacity * mean)), 1, rows);
}

// The weights of the chosen experts are divided by their sum (Mixtral, arXiv 2401.04088, section 2.1); with a single
// expert the router could not learn from that, and the weight is its probability (Switch, arXiv 2101.03961, 2.1).
std::vector<std::int64_t> KernelRewrite::gating_dims() const {
  return {routed_rows(),
          ffn().experts,
          ffn().experts_per_token,
          slots(),
          ffn().experts_per_token > 1 ? 1 : 0,
          std::int64_t(Routing::by_logits)};
}
std::vector<std::int64_t> KernelRewrite::expert_dims(const Operator& op) const {
  const std::int64_t ranks = shape_.shard.expert;
  return {ranks * shape_.shard.expert_tensor, ffn().experts / ranks, slots(), columns(op.out[0]), columns(op.in[0])};
}

// The rank's own rows, even if all ranks of a tensor group hold all of them.
std::int64_t KernelRewrite::routed_rows() const {
  for (const auto& op : block_.operators)
    if (op.kind == Kind::route) return rows(op.in[0]);
  return 0;
}

// Values that the block sizes by sent rows have a row for every slot here, for each rank that shares an expert.
void KernelRewrite::size_slots() {
  for (const auto& op : block_.operators) {
    const bool own = op.kind == Kind::dispatch || op.kind == Kind::scatter_rows;
    const bool all =
        op.kind == Kind::gather_rows || op.kind == Kind::expert_linear || (op.kind == Kind::activate && of_experts(op));
    for (const Index v : op.out)
      if (own || all) elements_[place_[v]] = (own ? slot_rows() : held_rows()) * columns(v);
  }
}

// Sends to the ranks of the experts, or back. A group of one has nothing to exchange.
KernelRewrite::Index KernelRewrite::exchanged(Steps& steps, Index v) {
  if (shape_.shard.expert == 1) return v;
  return moved(steps, CollectiveKind::all_to_all, Axis::expert, v, elements_[v]);
}

void KernelRewrite::route(const Operator& op) {
  const std::int64_t E = ffn().experts, T = routed_rows();
  const Index logits = value(T * E);
  weights_ = value(T * ffn().experts_per_token);
  auto& F = part_.forward;
  kernel(F, KernelKind::linear, {T, E, model_.hidden}, {read(at(op.in[0])), weight(op.parameters[0]), write(logits)});
  kernel(F, KernelKind::route, gating_dims(),
         {read(logits), write(*weights_), write(at(op.out[1])), write(at(op.out[0]))});
}
void KernelRewrite::route_gradient(const Operator& op) {
  const std::int64_t E = ffn().experts, h = model_.hidden, T = routed_rows();
  const Index dlogits = value(T * E), x = op.in[0], dx = like(x);
  auto& I = part_.input_gradient_steps;
  kernel(I, KernelKind::route_gradient, gating_dims(),
         {read(at(op.out[0])), read(at(op.out[1])), read(*gradients_[op.out[1]]), write(dlogits)});
  kernel(I, KernelKind::linear_input_gradient, {T, E, h}, {read(dlogits), weight(op.parameters[0]), write(dx)});
  add_gradient(x, dx);
  kernel(part_.weight_gradient_steps, KernelKind::linear_weight_gradient, {T, E, h},
         {read(dlogits), read(at(x)), gradient(op.parameters[0])});
}

void KernelRewrite::dispatch(const Operator& op) {
  auto& F = part_.forward;
  const Index sent = at(op.out[0]);
  kernel(F, KernelKind::dispatch_rows, dispatch_dims(), {read(at(op.in[0])), read(at(op.in[1])), write(sent)});
  place_[op.out[0]] = exchanged(F, sent);
}
void KernelRewrite::dispatch_gradient(const Operator& op) {
  auto& I = part_.input_gradient_steps;
  const Index x = op.in[0], dsent = exchanged(I, *gradients_[op.out[0]]), dx = like(x);
  kernel(I, KernelKind::dispatch_rows_gradient, dispatch_dims(), {read(dsent), read(at(op.in[1])), write(dx)});
  add_gradient(x, dx);
}

void KernelRewrite::expert_linear(const Operator& op) {
  kernel(part_.forward, KernelKind::expert_linear, expert_dims(op),
         {read(at(op.in[0])), weight(op.parameters[0]), write(at(op.out[0]))});
}
void KernelRewrite::expert_linear_gradient(const Operator& op) {
  const Index dy = *gradients_[op.out[0]], x = op.in[0], dx = like(x);
  kernel(part_.input_gradient_steps, KernelKind::expert_linear_input_gradient, expert_dims(op),
         {read(dy), weight(op.parameters[0]), write(dx)});
  add_gradient(x, dx);
  auto& W = part_.weight_gradient_steps;
  const Index seen = seen_again(W, x);
  kernel(W, KernelKind::expert_linear_weight_gradient, expert_dims(op),
         {read(dy), read(seen), gradient(op.parameters[0])});
}

void KernelRewrite::combine(const Operator& op) {
  auto& F = part_.forward;
  returned_ = exchanged(F, at(op.in[0]));
  kernel(F, KernelKind::combine_rows, dispatch_dims(),
         {read(*returned_), read(at(op.in[1])), read(*weights_), write(at(op.out[0]))});
}
void KernelRewrite::combine_gradient(const Operator& op) {
  auto& I = part_.input_gradient_steps;
  const Index chosen = op.in[1], dreturned = value(elements_[*returned_]), dweights = value(elements_[*weights_]);
  kernel(I, KernelKind::combine_rows_gradient, dispatch_dims(),
         {read(*gradients_[op.out[0]]), read(*returned_), read(at(chosen)), read(*weights_), write(dreturned),
          write(dweights)});
  gradients_[chosen] = dweights;
  gradients_[op.in[0]] = exchanged(I, dreturned);
}

}  // namespace rehearsal::models
