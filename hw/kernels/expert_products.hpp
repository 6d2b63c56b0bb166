// The matrix products of experts as products of linear layers, one per expert and rank that sent it rows: the same code
// computes both.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/kernels.hpp"
#include "kernels/call.hpp"

namespace rehearsal::kernels {

// Calls each(linear kernel, first element within each operand).
template <class Each>
void each_expert_product(const Kernel& kernel, const Each& each) {
  constexpr KernelKind kKinds[] = {KernelKind::linear, KernelKind::linear_input_gradient,
                                   KernelKind::linear_weight_gradient};
  const LinearProduct linear = traits(kernel.kind).linear;
  const LinearLayer of = linear_layer(kernel);
  const Kernel product{.kind = kKinds[static_cast<std::size_t>(linear) - 1],
                       .dims = {of.rows, of.outputs, of.inputs},
                       .precision = kernel.precision};
  const std::size_t weight = linear == LinearProduct::weight_gradient ? 2 : 1;
  const auto size = operand_elements(product, 0).elements;
  for (std::int64_t block = 0; block < of.products; ++block) {
    std::array<std::int64_t, 3> from{};
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = (i == weight ? block % of.weights : block) * size[i];
    each(product, from);
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
