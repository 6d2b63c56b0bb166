// Low-rank adapters (LoRA, arXiv 2106.09685): y = x w + s (x a) b beside a linear layer whose own weights are frozen.
// Each is two narrow GEMMs, a scale and a sum; queries, keys and values, and gate and up, have separate adapters if
// they are separate GEMMs, and each expert has its own. Only adapters have gradients, so values that only gradients of
// frozen weights would read are not kept.
//
// PEFT (tuners/lora/layer.py, Linear.forward) casts x to the precision of the adapters, which is fp32
// (autocast_adapter_dtype), drops some of it, and adds in fp32: of each adapter its copy of x and the mask of the
// dropout stay for the gradient of a. Under autocast (`bf16` or `fp16` of Trainer) torch.nn.functional.linear takes 16
// bits: what was cast to fp32 and dropped is cast back, products and sums have 16 bits, and so has the copy that stays.
#include <string_view>
#include <utility>

#include "models/framework_rewrite.hpp"
#include "models/traffic.hpp"

namespace rehearsal::models {
namespace {

std::optional<AdaptedLayer> layer_of(std::string_view linear) {
  if (linear == "qkv") return AdaptedLayer::linear_qkv;
  if (linear == "attention out") return AdaptedLayer::linear_proj;
  if (linear == "mlp up" || linear == "experts up") return AdaptedLayer::linear_fc1;
  if (linear == "mlp down" || linear == "experts down") return AdaptedLayer::linear_fc2;
  return std::nullopt;
}

// Scaled (2 bytes read, 2 written) and added (4 read, 2 written): one kernel if a compiler fuses, else two.
constexpr double kScaled = 4, kAdded = 6;

// The steps of an adapter.
struct AdapterNames {
  std::string_view input, down, up, sum, scale, up_gradient, up_weights, down_gradient, down_weights, gradient_sum;
};
constexpr AdapterNames kBeside{"adapter input",       "adapter down",           "adapter up",
                               "adapter sum",         "adapter scale gradient", "adapter up gradient",
                               "adapter up weights",  "adapter down gradient",  "adapter down weights",
                               "adapter gradient sum"};
constexpr AdapterNames kOfExperts{"experts' adapter input",
                                  "experts adapter down",
                                  "experts adapter up",
                                  "experts' adapter sum",
                                  "experts' adapter scale gradient",
                                  "experts adapter up gradient",
                                  "experts adapter up weights",
                                  "experts adapter down gradient",
                                  "experts adapter down weights",
                                  "experts' adapter gradient sum"};

bool of_each_expert(const Operator& op) { return op.kind == OperatorKind::expert_linear; }
const AdapterNames& names_beside(const Operator& op) { return of_each_expert(op) ? kOfExperts : kBeside; }

}  // namespace

bool FrameworkRewrite::adapted(const Operator& op) const {
  const auto layer = layer_of(op.name);
  if (of_each_expert(op) && !run_.training.adapts_experts) return false;
  return layer && op.section != Section::none && run_.training.adapts(*layer);
}

FrameworkRewrite::Adapter FrameworkRewrite::adapter_of(const Operator& op) const {
  const Gemm whole = of_each_expert(op) ? expert_product(op) : product(op);
  const auto narrow = unscaled(run_.training.precision);
  const auto precision = adapter_bytes() != element_ ? Precision::fp32 : narrow;
  const auto rank = run_.training.adapter_rank;
  const std::int64_t each = run_.framework.separate_projections ? static_cast<std::int64_t>(op.out.size()) : 1;
  return {{whole.m, each * rank, whole.k, whole.batch, precision, false},
          {whole.m, whole.n, rank, whole.batch, precision, false},
          each};
}

// What the first product reads: a copy for each adapter, cast (2 read, 4 written, of every adapter anew), dropped
// (read, written with a mask of a byte) and, under autocast, cast back; it is kept.
FrameworkRewrite::Index FrameworkRewrite::adapter_input(const Operator& op, std::int64_t each) {
  const Index in = op.in[0];
  if (!copies_adapter_input()) return in;
  const auto& framework = run_.framework;
  const double elements = double(block_.values[in].elements), all = double(each) * elements, own = adapter_width();
  const bool casts = own != element_, back = own != adapter_bytes();
  const Index copy = value(adapter_bytes() * all);
  dropped_inputs_[&op] = copy;
  Operands operands{read(in)};
  if (casts && (framework.adapter_dropout || back)) operands.push_back(write(value(own * elements)));
  if (framework.adapter_dropout) operands.push_back(write(input_masks_[&op] = value(all)));
  operands.push_back(write(copy));
  const Moved moved = (casts ? widened(element_ + own) : 0) + (framework.adapter_dropout ? 2 * own + 1 : 0) +
                      (back ? own + element_ : 0);
  const std::int64_t kernels = (casts ? 1 : 0) + (framework.adapter_dropout ? 1 : 0) + (back ? 1 : 0);
  part_.forward.push_back(plain(names_beside(op).input, moved * all, each * kernels, std::move(operands)));
  return copy;
}

void FrameworkRewrite::forward_adapter(const Operator& op) {
  const auto [down, up, each] = adapter_of(op);
  const double own = adapter_bytes(), columns = double(up.m) * double(up.n) * double(up.batch);
  const Index x = adapter_input(op, each);
  const Index narrow = value(own * double(down.m) * double(down.n) * double(down.batch)), wide = value(own * columns);
  narrow_[&op] = narrow;
  part_.forward.push_back({names_beside(op).down, down, {read(x), write(narrow)}});
  part_.forward.push_back({names_beside(op).up, up, {read(narrow), write(wide)}});
  Operands sum{read(wide)};
  for (const auto v : op.out) sum.push_back(read(v)), sum.push_back(write(v));
  const bool fused = run_.compiled(), widens = own != element_;
  if (widens && !fused)  // scaled, and the sum before it is cast back
    for (int i = 0; i < 2; ++i) sum.push_back(write(value(own * columns)));
  // In fp32: scaled 8; 2 and 4 read, 4 written, of which the 2 are cast; cast 6.
  const Moved moved = widens && !fused ? 8 + widened(10) + 6 : wide_ * (kAdded + (fused ? 0 : kScaled));
  part_.forward.push_back(plain(names_beside(op).sum, moved * columns, fused ? 1 : widens ? 3 : 2, sum));
}

// `at_hand`: the input in a one-pass backward; `kept`: until a weight gradient in a pass of its own.
void FrameworkRewrite::backward_adapter(const Operator& op, Index at_hand, Index kept) {
  auto& list = part_.input_gradient_steps;
  const auto [down, up, each] = adapter_of(op);
  const bool copies = copies_adapter_input();
  if (copies) at_hand = kept = dropped_inputs_.at(&op);
  const Index in = op.in[0], narrow = narrow_.at(&op), of_narrow = like(narrow);
  const Index partial = copies ? like(at_hand) : like(in);
  Operands gradients, waiting;
  for (const auto v : op.out) {
    gradients.push_back(read(*gradients_[v]));
    waiting.push_back(read(before_gather_[v].value_or(*gradients_[v])));
  }
  const auto with = [](Operands all, Operand other) {
    all.push_back(other);
    return all;
  };
  const double columns = double(up.m) * double(up.n) * double(up.batch);
  if (adapter_bytes() != element_) {  // cast 6, scaled 8
    const Index cast = value(adapter_bytes() * columns);
    list.push_back(plain(names_beside(op).scale, (widened(6) + 8) * columns, 2, with(gradients, write(cast))));
    gradients = waiting = {read(cast)};
  } else if (!run_.compiled()) {
    list.push_back(plain(names_beside(op).scale, wide_ * kScaled * columns, 1, gradients));
  }
  list.push_back({names_beside(op).up_gradient, input_gradient(up), with(gradients, write(of_narrow))});
  weights_.push_back({names_beside(op).up_gradient,
                      {names_beside(op).up_weights, weight_gradient(up), with(gradients, read(narrow))},
                      with(waiting, read(narrow))});
  list.push_back({names_beside(op).down_gradient, input_gradient(down), {read(of_narrow), write(partial)}});
  weights_.push_back({names_beside(op).down_gradient,
                      {names_beside(op).down_weights, weight_gradient(down), {read(of_narrow), read(at_hand)}},
                      {read(of_narrow), read(kept)}});
  const Index sum = *gradients_[in];
  // Each copy's gradient through the dropout (the mask a byte) and the cast, and added.
  const double elements = double(block_.values[in].elements), own = adapter_width();
  const bool drops = run_.framework.adapter_dropout, casts = own != element_, widens = own != adapter_bytes();
  const Moved moved = wide_ * kAdded + (drops ? 2 * own + 1 : 0) + (casts ? own + element_ : 0) +
                      (widens ? widened(element_ + own) : 0);
  Operands added{read(partial), read(sum), write(sum)};
  if (drops) added.push_back(read(input_masks_.at(&op)));
  list.push_back(plain(names_beside(op).gradient_sum, (copies ? double(each) : 1) * moved * elements,
                       copies ? each * (1 + (drops ? 1 : 0) + (casts ? 1 : 0) + (widens ? 1 : 0)) : 1,
                       std::move(added)));
}

double FrameworkRewrite::adapter_parameters(bool experts) const {
  double all = 0;
  for (const auto& op : block_.operators) {
    if ((op.kind != OperatorKind::linear && !of_each_expert(op)) || of_each_expert(op) != experts || !adapted(op))
      continue;
    const auto [down, up, each] = adapter_of(op);
    all += (double(down.n) * double(down.k) + double(up.n) * double(up.k)) * double(up.batch);
  }
  return all;
}

// Kernels of a forward beside those of modules that learn: of adapters, and copies of quantised matrices.
std::int64_t FrameworkRewrite::frozen_launches(bool experts) const {
  if (!run_.training.frozen()) return 0;
  std::vector<Step> own;
  bool beside_experts = false;
  for (const auto& step : part_.forward) {
    const bool copies = step.name == "dequantise", adapter = step.name.find("adapter ") != std::string_view::npos;
    if (step.name == "router") beside_experts = true;
    if ((copies || adapter) && beside_experts == experts) own.push_back(step);
  }
  return launches(own);
}

}  // namespace rehearsal::models
