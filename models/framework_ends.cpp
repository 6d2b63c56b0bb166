// The two ends of the network as frameworks run them. Never recomputed; their kernels have no dropout factor (fits:
// models/README.md).
#include "models/framework_rewrite.hpp"

#include <utility>

namespace rehearsal::models {

// 16 bytes per element in all: look-up 4, positions 6 (or scaling), dropout or cast 2 forward; 4 backward. GPT without
// learned positions has two kernels of 6 bytes. The gradient of a look-up is dense here: cleared and written over the
// whole slice, then added to the buffer.
void FrameworkRewrite::embed(const Operator& op, bool back) {
  const Index x = op.out[0];
  const double size = double(block_.values[x].elements);
  if (!back) {
    Operands operands{write(x)};
    masks_[0] = mask(local_.residual);
    if (masks_[0]) operands.push_back(write(*masks_[0]));
    const bool adds = !run_.model.is_gpt() || run_.model.learned_positions;
    return part_.forward.push_back(plain(op.name, wide_ * (adds ? 12 : 6) * size, adds ? 3 : 2, std::move(operands)));
  }
  const Index dx = *gradients_[x];
  Operands operands{read(dx)};
  if (masks_[0]) operands.push_back(read(*masks_[0]));
  part_.input_gradient_steps.push_back(plain("embedding gradient", wide_ * 4 * size, 1, std::move(operands)));
  if (!learns(op)) return;
  const auto table = double(block_.tensor(op.parameters[0]).elements());
  const double dense = (4 + accumulation_bytes(run_.training, run_.framework, run_.shard)) * table;
  weights_.push_back(
      {"embedding gradient", plain("embedding weights", dense, 2, {read(dx)}), {read(before_gather_[x].value_or(dx))}});
}

// The cross-entropy. Cast to fp32, maximum, exponentials, sum, loss: 34 bytes per logit eager, 16 in a compiled kernel;
// backward 14 and 10. The 2-byte logits are copied to fp32, and the copy becomes softmax or log-softmax, which the
// backward needs; Megatron-Core subtracts the maximum and takes exponentials within the copy
// (calculate_predicted_logits in core/tensor_parallel/cross_entropy.py). Megatron turns it into the gradient in place
// and casts it. A training loop of torch holds the 2-byte logits, its model's output, until the backward has ended.
// Torch writes the gradient of the loss, then that of the logits; over a sliced vocabulary it does so in steps
// (torch.distributed's loss parallel): one more fp32 array in each pass. A fused kernel reads the 2-byte logits and
// writes their gradient, also in 2 bytes.
void FrameworkRewrite::loss(const Operator& op, bool back) {
  if (in_chunks()) return loss_of_chunks(back);
  const Index logits = op.in[0];
  const double size = double(block_.values[logits].elements);
  part_.values[logits].holds = Value::Holds::loss;
  if (!back) return cross_entropy(part_.forward, logits, size);
  gradients_[logits] = cross_entropy_gradient(part_.input_gradient_steps, logits, size);
}

LossKernels FrameworkRewrite::loss_kernels() const {
  const auto kernels = run_.framework.loss;
  if (kernels != LossKernels::compiled && kernels != LossKernels::chunked) return kernels;
  return run_.compiled() ? LossKernels::fused : LossKernels::torch;
}

// Of `size` logits.
void FrameworkRewrite::cross_entropy(List& list, Index logits, double size) {
  const auto holds = Value::Holds::loss;
  const auto kernels = loss_kernels();
  const bool stepwise = kernels == LossKernels::torch && run_.cut(), compiled = run_.compiled();
  Operands operands{read(logits)};
  loss_state_.reset();
  if (kernels != LossKernels::fused) {
    loss_state_ = value(4 * size, holds);
    if (kernels != LossKernels::in_place && element_ < 4) operands.push_back(write(value(4 * size, holds)));
    operands.push_back(write(*loss_state_));
    if (stepwise) operands.push_back(write(value(4 * size, holds)));
  }
  list.push_back(plain("cross-entropy", (compiled ? 16 : 34) * size, compiled ? 4 : 10, std::move(operands)));
}

// Returns the gradient of the logits.
FrameworkRewrite::Index FrameworkRewrite::cross_entropy_gradient(List& list, Index logits, double size) {
  const auto holds = Value::Holds::loss;
  const auto kernels = loss_kernels();
  const bool torch = kernels == LossKernels::torch, compiled = run_.compiled();
  Operands operands;
  if (torch || kernels == LossKernels::fused) operands.push_back(read(logits));
  if (loss_state_) operands.push_back(read(*loss_state_));
  const Index gradient = value((torch ? 4 : element_) * size, holds);
  operands.push_back(write(gradient));
  if (torch) operands.push_back(write(value(4 * size, holds)));
  if (torch && run_.cut()) operands.push_back(write(value(4 * size, holds)));
  list.push_back(plain("cross-entropy gradient", (compiled ? 10 : 14) * size, compiled ? 4 : 12, std::move(operands)));
  return gradient;
}

}  // namespace rehearsal::models
