#include <algorithm>

#include "base/error.hpp"
#include "cpu/functions.hpp"
#include "cpu/kernels.hpp"

namespace rehearsal::cpu {
namespace {

// First of the e elements that an optimizer kernel works on.
std::int64_t first(std::int64_t flat, std::int64_t e, std::int64_t data) {
  return static_cast<Flat>(flat) == Flat::part ? data * e : 0;
}

const float* rows_of(std::span<const float> rows, std::int64_t elements) {
  INVARIANT(static_cast<std::int64_t>(rows.size()) == elements, "the data has the shape of the kernel");
  return rows.data();
}

// The loss is a double in a buffer of floats. One rank of a tensor group counts what all of them compute.
void add_loss(float* loss, double sum, const Surroundings& around) {
  if (around.tensor == 0) *reinterpret_cast<double*>(loss) += sum;
}

void optimize(const Kernel& kernel, std::span<float* const> operands, const Surroundings& around) {
  INVARIANT(around.learning, "optimizers need their rates");
  const std::int64_t e = kernel.dims[0];
  float* gradient = operands[0] + first(kernel.dims[1], e, around.data);
  float* parameters = operands[1] + first(kernel.dims[2], e, around.data);
  if (around.squared_gradients && kernel.kind != KernelKind::adamw_rollback)
    *around.squared_gradients += sum_of_squares(around.counted, gradient);
  switch (kernel.kind) {
    case KernelKind::sgd:
      return sgd(e, *around.learning, gradient, parameters);
    case KernelKind::adamw:
    case KernelKind::adamw_keep:
      return adamw(e, *around.learning, around.step, kernel.kind == KernelKind::adamw_keep, gradient, parameters,
                   operands[2]);
    default:
      return adamw_rollback(e, *around.learning, around.step, gradient, parameters, operands[2]);
  }
}

}  // namespace

OperandElements operand_elements(const Kernel& kernel, std::int64_t data) {
  const auto [a, b, c, d, e] = kernel.dims;
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
    case KernelKind::add_positions:
      return list(c * b, a * b);
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
      return list(3 * a * b * c * d, a * b * c * d, a * b * c);
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
    case KernelKind::attention_gradient:
      return list(3 * a * b * c * d, a * b * c * d, a * b * c, a * b * c * d, 3 * a * b * c * d);
    case KernelKind::linear_weight_gradient:
      return list(a * b, a * c, b * c);
    case KernelKind::embed_gradient:
    case KernelKind::positions_gradient:
      return list(a * b, c * b);
    case KernelKind::clear:
      return list(a);
    case KernelKind::add_own_shard:
      return list((data + 1) * a, a);
    case KernelKind::sgd:
      if (keeps_master(kernel)) return list(first(b, a, data) + a, first(c, a, data) + a, a);
      return list(first(b, a, data) + a, first(c, a, data) + a);
    case KernelKind::adamw:
    case KernelKind::adamw_keep:
    case KernelKind::adamw_rollback:
      return list(first(b, a, data) + a, first(c, a, data) + a, (keeps_master(kernel) ? 3 : 2) * a);
  }
  return {};
}

void perform(const Kernel& kernel, std::span<float* const> operands, const Surroundings& around, GemmFunction product) {
  INVARIANT(operands.size() == operand_elements(kernel, around.data).count, "as many operands as the table says");
  const auto [a, b, c, d, e] = kernel.dims;
  const auto& x = operands;
  const Shape shape{a, b};
  const Batch& batch = around.batch;
  const Slice slice{around.tensor * b, kernel.dims[2]};
  switch (kernel.kind) {
    case KernelKind::load_rows:
      std::copy_n(rows_of(batch.rows, a * b), a * b, x[0]);
      return;
    case KernelKind::embed:
      return embed(shape, around.tensor * c, c, batch.tokens, x[0], x[1]);
    case KernelKind::add_positions:
      return add_positions(shape, c, x[0], x[1]);
    case KernelKind::layer_norm:
      return layer_norm(shape, x[0], x[1], x[2], x[3], x[4]);
    case KernelKind::linear:
      return product({.m = a, .n = b, .k = c, .a = x[0], .b = x[1], .c = x[2], .transposed_b = true});
    case KernelKind::add_bias:
      return add_bias(shape, static_cast<Bias>(c), x[0], x[1]);
    case KernelKind::gelu:
      return gelu(a, x[0], x[1]);
    case KernelKind::attention:
      return attention({a, b, c, d, e != 0}, x[0], x[1], x[2]);
    case KernelKind::add_residual:
      return add_residual(shape, x[0], x[1], x[2]);
    case KernelKind::cross_entropy_local:
      return cross_entropy_local(shape, slice, batch.targets, x[0], x[1] + around.tensor * 3 * a);
    case KernelKind::cross_entropy:
      return add_loss(x[2], cross_entropy(a, d, x[0], x[1]) / double(e), around);
    case KernelKind::squared_error:
      return add_loss(x[1], squared_error(shape, x[0], rows_of(batch.row_targets, a * b)) / (2. * double(c * b)),
                      around);
    case KernelKind::cross_entropy_gradient:
      return cross_entropy_gradient(shape, slice, batch.targets, d, x[0], x[1]);
    case KernelKind::squared_error_gradient:
      return squared_error_gradient(shape, c, x[0], rows_of(batch.row_targets, a * b), x[1]);
    case KernelKind::linear_input_gradient:
      return product({.m = a, .n = c, .k = b, .a = x[0], .b = x[1], .c = x[2]});
    case KernelKind::bias_gradient:
      return bias_gradient(shape, static_cast<Bias>(c), x[0], x[1]);
    case KernelKind::layer_norm_gradient:
      return layer_norm_gradient(shape, x[0], x[1], x[2], x[3], x[4], x[5]);
    case KernelKind::gelu_gradient:
      return gelu_gradient(a, x[0], x[1]);
    case KernelKind::attention_gradient:
      return attention_gradient({a, b, c, d, e != 0}, x[0], x[1], x[2], x[3], x[4]);
    case KernelKind::add:
      return add(a, x[0], x[1]);
    case KernelKind::linear_weight_gradient:
      return product(
          {.m = b, .n = c, .k = a, .a = x[0], .b = x[1], .c = x[2], .transposed_a = true, .accumulate = true});
    case KernelKind::embed_gradient:
      return embed_gradient(shape, around.tensor * c, c, batch.tokens, x[0], x[1]);
    case KernelKind::positions_gradient:
      return positions_gradient(shape, c, x[0], x[1]);
    case KernelKind::clear:
      std::fill_n(x[0], a, 0.f);
      return;
    case KernelKind::copy:
      std::copy_n(x[0], a, x[1]);
      return;
    case KernelKind::add_own_shard:
      return add(a, x[0] + around.data * a, x[1]);
    case KernelKind::sgd:
    case KernelKind::adamw:
    case KernelKind::adamw_keep:
    case KernelKind::adamw_rollback:
      return optimize(kernel, operands, around);
  }
}

}  // namespace rehearsal::cpu
