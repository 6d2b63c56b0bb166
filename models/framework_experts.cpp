// Layers with experts as frameworks run them: the router, the exchange of tokens, GEMMs of the experts.
#include <algorithm>
#include <utility>

#include "models/framework_rewrite.hpp"

namespace rehearsal::models {
namespace {

using Kind = OperatorKind;

}  // namespace

bool is_expert_product(std::string_view step) { return step.starts_with("experts "); }

bool FrameworkRewrite::has_experts() const {
  return std::any_of(block_.operators.begin(), block_.operators.end(),
                     [](const Operator& op) { return op.kind == Kind::route; });
}

// Kernels of Megatron-Core's router beside its product, one by one and with those of Transformer Engine that fuse some
// of them (its docs/discussions/deepseek-v3-gb200-optimization: 72 and 31 in a forward); backward in the proportion of
// the launches that framework_launches.cpp counts.
constexpr std::int64_t kRouterKernels = 72, kFusedRouterKernels = 31, kRouterBack = 42, kFusedRouterBack = 26;

// Routers compute in fp32: tf32 here. Softmax, top-k and their sums are small kernels over the logits.
void FrameworkRewrite::route(const Operator& op, bool back) {
  const Index x = op.in[0];
  const bool fused = run_.framework.fused_router, eager = run_.framework.launches == LaunchCounts::eager;
  const auto kernels = [&](std::int64_t one_by_one, std::int64_t few) { return eager ? 1 : fused ? few : one_by_one; };
  const auto &in = block_.values[x], &logits = block_.values[op.out[0]], &chosen = block_.values[op.out[1]];
  const Gemm product{in.elements / in.columns, logits.columns, in.columns, 1, Precision::tf32, false};
  if (!back) {
    part_.values[op.out[0]].size = Bytes(4 * logits.elements);
    part_.values[op.out[1]].size = Bytes(8 * chosen.elements);  // the expert, and its weight
    part_.forward.push_back({"router", product, {read(x), write(op.out[0])}});
    part_.forward.push_back(plain("top-k", 12 * double(logits.elements), kernels(kRouterKernels, kFusedRouterKernels),
                                  {read(op.out[0]), write(op.out[1])}));
    return;
  }
  const Index dlogits = value(4 * double(logits.elements));
  auto& list = part_.input_gradient_steps;
  list.push_back(plain("top-k gradient", 16 * double(logits.elements), kernels(kRouterBack, kFusedRouterBack),
                       {read(op.out[0]), write(dlogits)}));
  list.push_back({"router gradient", input_gradient(product), {read(dlogits), write(gradient_of(x))}});
  if (run_.training.frozen()) return;
  weights_.push_back({"router gradient",
                      {"router weights", weight_gradient(product), {read(dlogits), read(x)}},
                      {read(dlogits), read(x)}});
}

// Rows are sent in 16 bits, or in 8 bits with a scale for each block of 128 on the way to the experts: tokens, and
// gradients of the experts' outputs (2412.19437, section 3.3.2).
void FrameworkRewrite::exchange(const Operator& op, bool back, Index from, Index to) {
  const auto& run = run_;
  const std::int64_t hidden = layer_.ffn.latent > 0 ? layer_.ffn.latent : run.model.hidden;
  const bool dispatches = op.kind == Kind::dispatch, to_experts = dispatches != back;
  const char* name = dispatches ? back ? "dispatch gradient" : "dispatch" : back ? "combine gradient" : "combine";
  const bool narrow = run.fp8() && run.framework.fp8_dispatch && to_experts;
  const std::int64_t tokens = local_.tokens / run.shard.tensor;
  (back ? part_.input_gradient_steps : part_.forward)
      .push_back({name,
                  TokenDispatch{tokens, narrow ? Bytes(hidden + 4 * hidden / 128) : bytes(element_ * double(hidden)),
                                layer_.ffn.experts, layer_.ffn.experts_per_token, run.routing.most_domains,
                                run.routing.two_hop, run.routing.load, run.routing.loads,
                                !to_experts && !run.routing.loads.empty()},
                  {read(from), write(to)}});
  run_beside(op, back);
}

// Megatron-Core's --moe-shared-expert-overlap (transformer/moe/shared_experts.py, token_dispatcher.py): shared experts
// have a stream of their own. Gather, first GEMM and activation are launched after the dispatch, second GEMM and
// scatter after the combine; autograd computes the gradients in the same places.
bool FrameworkRewrite::beside_exchange(const Operator& op) const {
  return run_.framework.shared_expert_overlap && run_.shard.expert > 1 && op.module == RecomputeModule::shared_experts;
}
void FrameworkRewrite::run_beside(const Operator& exchange, bool back) {
  std::vector<std::size_t> first, second;  // by number, up to the activation and after it
  bool activated = false;
  for (std::size_t i = 0; i < block_.operators.size(); ++i) {
    const auto& op = block_.operators[i];
    if (!beside_exchange(op)) continue;
    (activated ? second : first).push_back(i);
    activated = activated || op.kind == Kind::activate;
  }
  auto& mine = exchange.kind == Kind::dispatch ? first : second;
  auto& list = back ? part_.input_gradient_steps : part_.forward;
  const auto steps = list.size(), weights = weights_.size();
  if (back) std::reverse(mine.begin(), mine.end());
  for (const auto i : mine) back ? backward(block_.operators[i], i) : forward(block_.operators[i], i);
  for (auto i = steps; i < list.size(); ++i) list[i].of_shared_experts = true;
  for (auto i = weights; i < weights_.size(); ++i) weights_[i].step.of_shared_experts = true;
}

// Dispatch to the experts or combine on the way back; each is the other's gradient. An all-to-all takes and leaves rows
// in the order of ranks, which are then permuted to the order of the experts; kernels that know the experts send
// tokens, and make rows of them on arrival. The weights of the chosen experts are multiplied in with the activation, so
// only the places of rows are kept.
void FrameworkRewrite::travel(const Operator& op, bool back) {
  const bool dispatches = op.kind == Kind::dispatch;
  const Index chosen = op.in[1], rows = dispatches ? op.out[0] : op.in[0];
  const double size = double(part_.values[rows].size.count()), moved = 2 * size * run_.framework.permuted_traffic;
  const bool travels = run_.shard.expert > 1, both_sides = travels && !run_.routing.two_hop;
  auto& list = back ? part_.input_gradient_steps : part_.forward;
  const auto permute = [&](Index from, Index to) {
    list.push_back(plain(dispatches ? "permute" : "unpermute", moved, 1, {read(from), read(chosen), write(to)}));
  };
  const Index first = back ? *gradients_[op.out[0]] : op.in[0], last = back ? gradient_of(op.in[0]) : op.out[0];
  if (!travels) return permute(first, last);
  const Index here = value(size), there = value(size);
  if (dispatches != back) {  // to the experts
    if (both_sides) permute(first, here);
    exchange(op, back, both_sides ? here : first, there);
    permute(there, last);
  } else {
    permute(first, there);
    exchange(op, back, there, both_sides ? here : last);
    if (both_sides) permute(here, last);
  }
}

// Ranks that share an expert gather each other's rows, and sum their parts of the result.
void FrameworkRewrite::share_rows(const Operator& op, bool back) {
  const bool gathers = (op.kind == Kind::gather_rows) != back;
  const Index all = op.kind == Kind::gather_rows ? op.out[0] : op.in[0];
  const GroupCollective moved{gathers ? CollectiveKind::all_gather : CollectiveKind::reduce_scatter,
                              Axis::expert_tensor, part_.values[all].size};
  if (!back) return part_.forward.push_back({op.name, moved, {read(op.in[0]), write(op.out[0])}});
  part_.input_gradient_steps.push_back({op.name, moved, {read(*gradients_[op.out[0]]), write(gradient_of(op.in[0]))}});
}

// A part of a value is already there; the whole of a gradient, or of the experts' output, is gathered.
void FrameworkRewrite::own_tokens(const Operator& op, bool back) {
  const Index from = back ? *gradients_[op.out[0]] : op.in[0], to = back ? gradient_of(op.in[0]) : op.out[0];
  auto& list = back ? part_.input_gradient_steps : part_.forward;
  if ((op.kind == Kind::own_rows) != back) return list.push_back(plain(op.name, 0, 0, {read(from), write(to)}));
  const Index whole = op.kind == Kind::own_rows ? op.in[0] : op.out[0];
  list.push_back(collective(op.name, CollectiveKind::all_gather, whole, {read(from), write(to)}));
}

// One product for every expert of the rank.
Gemm FrameworkRewrite::expert_product(const Operator& op) const {
  const auto &in = block_.values[op.in[0]], &out = block_.values[op.out[0]];
  const std::int64_t experts = run_.shard.experts_held(layer_.ffn.experts), rows = in.elements / in.columns;
  return {(rows + experts - 1) / experts, out.columns, in.columns, experts, run_.training.precision, false};
}
double FrameworkRewrite::expert_activation_bytes(bool back) const {
  const bool gated = layer_.ffn.gated();
  // Per element of the width, 2 bytes each: biases 4 + 4; the gate clamped 4, scaled 4, sigmoid 4, times the gate 6; up
  // clamped 4, plus one 4; their product 6, times the token's weight 4. Backward: two gradients of each product, one of
  // the others, and what meets added up.
  if (!run_.framework.fused_grouped_mlp && !run_.framework.fused_expert_activation) return back ? 88 : 44;
  const double moved = back ? (gated ? 10 : 6) : (gated ? 6 : 4);
  return moved * activated();
}
double FrameworkRewrite::activated() const {
  return run_.framework.activated_traffic * (run_.framework.fused_grouped_mlp ? run_.framework.fused_activation : 1);
}
// Casts of one operand of a product: rows are as wide as the network, or as an expert.
void FrameworkRewrite::expert_cast(List& list, const Operator& op, bool back, Operands& of_product) {
  if (!run_.fp8()) return;
  const Index v = back ? op.out[0] : op.in[0];
  const bool wide = block_.values[v].columns == (layer_.ffn.latent > 0 ? layer_.ffn.latent : run_.model.hidden);
  const double factor = wide ? run_.framework.permuted_traffic : activated();
  const double size = double(block_.values[v].elements);
  const Index narrow = value(size);
  list.push_back(plain("fp8 cast", 4 * factor * size, 0, {read(back ? *gradients_[v] : v), write(narrow)}));
  of_product.push_back(read(narrow));
  if (!back && keeps_cast(v)) casts_[v] = narrow;
}
void FrameworkRewrite::forward_experts(const Operator& op) {
  Operands operands{read(op.in[0])};
  expert_cast(part_.forward, op, false, operands);
  dequantise(part_.forward, op, operands);
  operands.push_back(write(op.out[0]));
  part_.forward.push_back({op.name, expert_product(op), std::move(operands)});
  if (adapted(op)) forward_adapter(op);
}
void FrameworkRewrite::backward_experts(const Operator& op) {
  const bool up = op.name == "experts up";
  const Gemm forward = expert_product(op);
  const Index x = op.in[0], dy = *gradients_[op.out[0]];
  Operands operands{read(dy)};
  expert_cast(part_.input_gradient_steps, op, true, operands);
  dequantise(part_.input_gradient_steps, op, operands);
  operands.push_back(write(gradient_of(x)));
  const auto* name = up ? "experts up gradient" : "experts down gradient";
  part_.input_gradient_steps.push_back({name, input_gradient(forward), std::move(operands)});
  const Index kept = casts_[x].value_or(x);
  if (run_.training.frozen()) return adapted(op) ? backward_adapter(op, x, x) : void();
  if (run_.framework.expert_slices) select_experts(forward);
  weights_.push_back(
      {name,
       {up ? "experts up weights" : "experts down weights", weight_gradient(forward), {read(dy), read(kept)}},
       {read(dy), read(kept)}});
}

// Each expert's product reads a slice of a tensor of all experts (transformers, GraniteMoeParallelExperts): of every
// slice autograd makes a gradient as large as that tensor, cleared, into which the slice is copied (select_backward),
// and adds it to the sum of the others: 2 bytes written, then 6 read and written, of 16 bits.
void FrameworkRewrite::select_experts(const Gemm& product) {
  const double all = double(product.n) * double(product.k) * double(product.batch);
  const double moved = double(product.batch) * wide_ * (2 + 6) * all;
  const Index cleared = value(element_ * all), sum = value(element_ * all);
  part_.input_gradient_steps.push_back(
      plain("gradients of slices", moved, 2 * product.batch, {write(cleared), write(sum)}));
}

// The sum with the shared experts: read twice, written once. The gradient of a skip connection is that of the sum,
// which is kept for it while the backward goes on: it is counted separately.
void FrameworkRewrite::join(const Operator& op, bool back) {
  if (back) {
    gradients_[op.in[0]] = gradients_[op.in[1]] = *gradients_[op.out[0]];
    if (op.in[0] != block_.skip_taken) return;
    part_.skip.taken_gradient = like(op.in[0]);
    return part_.input_gradient_steps.push_back(
        plain(op.name, 0, 0, {read(*gradients_[op.in[1]]), write(*part_.skip.taken_gradient)}));
  }
  part_.forward.push_back(plain(op.name, wide_ * 6 * double(block_.values[op.out[0]].elements), 1,
                                {read(op.in[0]), read(op.in[1]), write(op.out[0])}));
}
void FrameworkRewrite::concatenate(const Operator& op, bool back) {
  const double moved = wide_ * 4 * double(block_.values[op.out[0]].elements);
  if (!back)
    return part_.forward.push_back(plain(op.name, moved, 1, {read(op.in[0]), read(op.in[1]), write(op.out[0])}));
  part_.input_gradient_steps.push_back(plain(
      op.name, moved, 1, {read(*gradients_[op.out[0]]), write(gradient_of(op.in[0])), write(gradient_of(op.in[1]))}));
}
void FrameworkRewrite::skip_out(const Operator& op, bool back) {
  if (op.out[0] == block_.skip_given && !back) {  // the same tensor, which lives for the layer behind it anyway
    part_.values[op.out[0]].size = Bytes{};
    part_.skip.given_gradient = gradients_[op.out[0]] = like(op.in[0]);
  }
  if (!back) return part_.forward.push_back(plain(op.name, 0, 0, {read(op.in[0]), write(op.out[0])}));
  part_.input_gradient_steps.push_back(plain(op.name, wide_ * 6 * double(block_.values[op.in[0]].elements), 1,
                                             {read(*gradients_[op.out[0]]), write(gradient_of(op.in[0]))}));
}

}  // namespace rehearsal::models
