// The size of each operand of a kernel: the shapes of the table of KernelKind, multiplied out.
#include "base/error.hpp"
#include "cpu/functions.hpp"
#include "cpu/kernels.hpp"

namespace rehearsal::cpu {

OperandElements operand_elements(const Kernel& kernel, std::int64_t data) {
  const auto [a, b, c, d, e, f, g, h] = kernel.dims;
  const auto list = [](auto... elements) {
    return OperandElements{{static_cast<std::int64_t>(elements)...}, sizeof...(elements)};
  };
  constexpr int kLoss = sizeof(double) / sizeof(float);
  const auto biased = [](std::int64_t columns, std::int64_t which) {
    return static_cast<Bias>(which) == Bias::whole ? columns : columns / 3 * 2;
  };
  switch (kernel.kind) {
    case KernelKind::load_rows:
      return list(a * b);
    case KernelKind::embed:
      return list(c * b, a * b);
    case KernelKind::add_positions:
      return list(kernels::ranks_of_cut(d) * c * b, a * b);
    case KernelKind::layer_norm:
      return list(a * b, b, b, a * b, 2 * a);
    case KernelKind::linear:
      return list(a * c, b * c, a * b);
    case KernelKind::add_bias:
      return list(biased(b, c), a * b);
    case KernelKind::gelu:
    case KernelKind::gelu_gradient:
    case KernelKind::add:
    case KernelKind::copy:
      return list(a, a);
    case KernelKind::attention:
      return list(a * c * d * (b + 2 * kv_heads(kernel)), a * b * c * d, a * b * c);
    case KernelKind::add_residual:
      return list(a * b, b, a * b);
    case KernelKind::cross_entropy_local:
      return list(a * b, 3 * d * a);
    case KernelKind::cross_entropy:
      return list(3 * d * a, a, kLoss);
    case KernelKind::squared_error:
      return list(a * b, kLoss);
    case KernelKind::cross_entropy_gradient:
      return list(a, a * b);
    case KernelKind::squared_error_gradient:
      return list(a * b, a * b);
    case KernelKind::linear_input_gradient:
      return list(a * b, b * c, a * c);
    case KernelKind::bias_gradient:
      return list(a * b, biased(b, c));
    case KernelKind::layer_norm_gradient:
      return list(a * b, 2 * a, b, b, b, a * b);
    case KernelKind::attention_gradient: {
      const std::int64_t qkv = a * c * d * (b + 2 * kv_heads(kernel));
      return list(qkv, a * b * c * d, a * b * c, a * b * c * d, qkv);
    }
    case KernelKind::linear_weight_gradient:
      return list(a * b, a * c, b * c);
    case KernelKind::embed_gradient:
      return list(a * b, c * b);
    case KernelKind::positions_gradient:
      return list(a * b, kernels::ranks_of_cut(d) * c * b);
    case KernelKind::clear:
      return list(a);
    case KernelKind::own_rows:
      return list(c * a * b, a * b);
    case KernelKind::add_own_shard:
      return list((data + 1) * a, a);
    case KernelKind::sgd:
      if (keeps_master(kernel)) return list(first_of_flat(b, a, data) + a, first_of_flat(c, a, data) + a, a);
      if (static_cast<Clip>(f) != Clip::none) return list(a, a, 2);
      return list(first_of_flat(b, a, data) + a, first_of_flat(c, a, data) + a);
    case KernelKind::adamw:
    case KernelKind::adamw_keep:
    case KernelKind::adamw_rollback:
      return list(first_of_flat(b, a, data) + a, first_of_flat(c, a, data) + a, (keeps_master(kernel) ? 3 : 2) * a);
    case KernelKind::adalomo:
      return list(a * b, a * b, a == 1 ? b : a + b);
    case KernelKind::rms_norm:
      return list(a * b, b, a * b, a);
    case KernelKind::rms_norm_gradient:
      return list(a * b, a, b, b, a * b);
    case KernelKind::rotary:
    case KernelKind::rotary_gradient:
      return list(a * e);
    case KernelKind::swiglu:
      return list(2 * a * b, a * b);
    case KernelKind::swiglu_gradient:
      return list(2 * a * b, a * b, 2 * a * b);
    case KernelKind::route:
      return list(a * b, a * c, a * c, a * b);
    case KernelKind::route_gradient:
      return list(a * b, a * c, a * c, a * b);
    case KernelKind::dispatch_rows:
      return list(a * b, a * c, d * e * b);
    case KernelKind::dispatch_rows_gradient:
      return list(d * e * b, a * c, a * b);
    case KernelKind::expert_linear:
      return list(a * b * c * e, b * d * e, a * b * c * d);
    case KernelKind::expert_linear_input_gradient:
      return list(a * b * c * d, b * d * e, a * b * c * e);
    case KernelKind::expert_linear_weight_gradient:
      return list(a * b * c * d, a * b * c * e, b * d * e);
    case KernelKind::combine_rows:
      return list(d * e * b, a * c, a * c, a * b);
    case KernelKind::combine_rows_gradient:
      return list(a * b, d * e * b, a * c, a * c, d * e * b, a * c);
    case KernelKind::attention_part:
    case KernelKind::attention_part_gradient: {
      const std::int64_t head = a * c * d, q = head * b, kv = 2 * head * kv_heads(kernel), lse = a * b * c;
      const std::int64_t block = kv * (h == kAllBlocks ? g : 1);
      if (kernel.kind == KernelKind::attention_part) return list(q + kv, block, q, lse);
      return list(q + kv, block, q, lse, q, q, block);
    }
    case KernelKind::take_columns:
      return list(a * b, a * d);
    case KernelKind::put_columns:
      return list(a * d, a * b);
    case KernelKind::cut_columns:
    case KernelKind::join_columns:
      return list(a * (c + 2 * d), a * (c + 2 * d));
    case KernelKind::join_rows:
    case KernelKind::cut_rows:
      return list(a * b * c * d, a * b * c * d);
  }
  return {};
}

std::vector<std::int32_t> slots_in_turn(const Kernel& kernel) {
  const auto operand = slots_operand(kernel.kind);
  INVARIANT(operand, "a kernel that goes by slots");
  const auto& dims = kernel.dims;
  const bool gates = kernel.kind == KernelKind::route_gradient;
  const std::int64_t all = gates ? dims[1] * dims[3] : dims[3] * dims[4];
  std::vector<std::int32_t> slots;
  for (std::int64_t i = 0; i < operand_elements(kernel, 0).elements[*operand]; ++i)
    slots.push_back(static_cast<std::int32_t>(i % all));
  return slots;
}

}  // namespace rehearsal::cpu
