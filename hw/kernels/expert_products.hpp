// The matrix products of experts as products of linear layers, one per expert and rank that sent it rows: the same code
// computes both.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/kernels.hpp"
#include "kernels/call.hpp"

namespace rehearsal::kernels {

constexpr bool is_expert_product(KernelKind kind) {
  return kind == KernelKind::expert_linear || kind == KernelKind::expert_linear_input_gradient ||
         kind == KernelKind::expert_linear_weight_gradient;
}

// Calls each(linear kernel, first element within each operand). dims of an expert product: sources experts slots n k.
template <class Each>
void each_expert_product(const Kernel& kernel, const Each& each) {
  const auto [sources, experts, slots, n, k, d6, d7, d8] = kernel.dims;
  Kernel product{.kind = KernelKind::linear, .dims = {slots, n, k}, .precision = kernel.precision};
  if (kernel.kind == KernelKind::expert_linear_input_gradient) product.kind = KernelKind::linear_input_gradient;
  if (kernel.kind == KernelKind::expert_linear_weight_gradient) product.kind = KernelKind::linear_weight_gradient;
  for (std::int64_t block = 0; block < sources * experts; ++block) {
    const std::int64_t inputs = block * slots * k, outputs = block * slots * n, weight = block % experts * n * k;
    using Offsets = std::array<std::int64_t, 3>;
    switch (product.kind) {
      case KernelKind::linear:
        each(product, Offsets{inputs, weight, outputs});
        break;
      case KernelKind::linear_input_gradient:
        each(product, Offsets{outputs, weight, inputs});
        break;
      default:
        each(product, Offsets{outputs, inputs, weight});
    }
  }
}

// The same with calls, whose operands are pointers.
template <class Each>
void each_expert_call(const Call& call, const Each& each) {
  each_expert_product(call.kernel, [&](const Kernel& kernel, const std::array<std::int64_t, 3>& from) {
    Call one = call;
    one.kernel = kernel;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::int64_t width = bytes_per_element(operand_precision(kernel, i));
      one.operands[i] = static_cast<std::byte*>(call.operands[i]) + from[i] * width;
    }
    each(one);
  });
}

}  // namespace rehearsal::kernels
