// Low-rank adapters (LoRA, arXiv 2106.09685): y = x w + s (x a) b beside a linear layer whose own weights are frozen.
// Each is two narrow GEMMs, a scale and a sum; queries, keys and values, and gate and up, have separate adapters if
// they are separate GEMMs. Only adapters have gradients, so values that only gradients of frozen weights would read are
// not kept.
#include <string_view>
#include <utility>

#include "models/framework_rewrite.hpp"

namespace rehearsal::models {
namespace {

std::optional<AdaptedLayer> layer_of(std::string_view linear) {
  if (linear == "qkv") return AdaptedLayer::linear_qkv;
  if (linear == "attention out") return AdaptedLayer::linear_proj;
  if (linear == "mlp up") return AdaptedLayer::linear_fc1;
  if (linear == "mlp down") return AdaptedLayer::linear_fc2;
  return std::nullopt;
}

// Scaled (2 bytes read, 2 written) and added (4 read, 2 written): one kernel if a compiler fuses, else two.
constexpr double kScaled = 4, kAdded = 6;

}  // namespace

bool FrameworkRewrite::adapted(const Operator& op) const {
  const auto layer = layer_of(op.name);
  return layer && op.section != Section::none && run_.training.adapts(*layer);
}

FrameworkRewrite::Adapter FrameworkRewrite::adapter_of(const Operator& op) const {
  const Gemm whole = product(op);
  const auto precision = unscaled(run_.training.precision);
  const auto rank = run_.training.adapter_rank;
  const std::int64_t each = run_.framework.separate_projections ? static_cast<std::int64_t>(op.out.size()) : 1;
  return {{whole.m, each * rank, whole.k, 1, precision, false}, {whole.m, whole.n, rank, 1, precision, false}};
}

void FrameworkRewrite::forward_adapter(const Operator& op) {
  const auto [down, up] = adapter_of(op);
  const double columns = double(up.m) * double(up.n);
  const Index narrow = value(element_ * double(down.m) * double(down.n)), wide = value(element_ * columns);
  narrow_[&op] = narrow;
  part_.forward.push_back({"adapter down", down, {read(op.in[0]), write(narrow)}});
  part_.forward.push_back({"adapter up", up, {read(narrow), write(wide)}});
  Operands sum{read(wide)};
  for (const auto v : op.out) sum.push_back(read(v)), sum.push_back(write(v));
  const bool fused = run_.compiled();
  part_.forward.push_back(plain("adapter sum", wide_ * (kAdded + (fused ? 0 : kScaled)) * columns, fused ? 1 : 2, sum));
}

// `at_hand`: the input in a one-pass backward; `kept`: until a weight gradient in a pass of its own.
void FrameworkRewrite::backward_adapter(const Operator& op, Index at_hand, Index kept) {
  auto& list = part_.input_gradient_steps;
  const auto [down, up] = adapter_of(op);
  const Index in = op.in[0], narrow = narrow_.at(&op), of_narrow = like(narrow), partial = like(in);
  Operands gradients, waiting;
  for (const auto v : op.out) {
    gradients.push_back(read(*gradients_[v]));
    waiting.push_back(read(before_gather_[v].value_or(*gradients_[v])));
  }
  const auto with = [](Operands all, Operand other) {
    all.push_back(other);
    return all;
  };
  if (!run_.compiled())
    list.push_back(plain("adapter scale gradient", wide_ * kScaled * double(up.m) * double(up.n), 1, gradients));
  list.push_back({"adapter up gradient", input_gradient(up), with(gradients, write(of_narrow))});
  weights_.push_back({"adapter up gradient",
                      {"adapter up weights", weight_gradient(up), with(gradients, read(narrow))},
                      with(waiting, read(narrow))});
  list.push_back({"adapter down gradient", input_gradient(down), {read(of_narrow), write(partial)}});
  weights_.push_back({"adapter down gradient",
                      {"adapter down weights", weight_gradient(down), {read(of_narrow), read(at_hand)}},
                      {read(of_narrow), read(kept)}});
  const Index sum = *gradients_[in];
  list.push_back(plain("adapter gradient sum", wide_ * kAdded * double(block_.values[in].elements), 1,
                       {read(partial), read(sum), write(sum)}));
}

double FrameworkRewrite::adapter_parameters() const {
  double all = 0;
  for (const auto& op : block_.operators) {
    if (op.kind != OperatorKind::linear || !adapted(op)) continue;
    const auto [down, up] = adapter_of(op);
    all += double(down.n) * double(down.k) + double(up.n) * double(up.k);
  }
  return all;
}

}  // namespace rehearsal::models
