// The unfused entries count every operation as a kernel: r reads and w writes of 2-byte elements are 2 (r + w) bytes,
// times what its kind takes longer than a copy (traffic.hpp).
#include "models/traffic.hpp"

#include <algorithm>

namespace rehearsal::models {
namespace {

// Squared ReLU, two operations and their four gradients either way: max(x, 0) 4, square 4; of the square its base to
// the first power 4, times the exponent 4, times the gradient 6, then the gradient of the maximum 6 (pow_backward and
// threshold_backward of torch).
constexpr ElementCost kSquaredRelu{8, 2}, kSquaredReluGradient{20, 4};

ElementCost activation(FfnKind kind, ElementCost gelu, ElementCost swiglu, ElementCost squared_relu) {
  return kind == FfnKind::gelu ? gelu : kind == FfnKind::swiglu ? swiglu : squared_relu;
}

LayerTraffic fused_forward(FfnKind kind, const Framework& framework) {
  return {{4, 1}, {framework.dropout ? 7. : 6., 1}, activation(kind, {4, 1}, {8, 1}, kSquaredRelu), {11, 3}};
}
LayerTraffic fused_backward(FfnKind kind, const Framework& framework) {
  return {{9, 2}, {framework.dropout ? 7. : 4., 1}, activation(kind, {6, 1}, {12, 1}, kSquaredReluGradient), {13, 3}};
}

LayerTraffic unfused_forward(const Transformer& model, FfnKind kind, const Training& training,
                             const Framework& framework) {
  const bool llama = !model.is_gpt(), narrow = bytes_per_element(training.precision) < 4;
  LayerTraffic t;
  // GPT: mean 2, minus mean 4, square 4, mean 2, plus epsilon and 1/sqrt (of rows: 0), times 4, gain 4, bias 4. Of a
  // product autograd keeps both sides: the quotient by the root, before the gain, and the difference from the mean.
  // Llama, in fp32 (transformers, modeling_llama.py, LlamaRMSNorm): copy to it 6, square 8, mean 4, times 8, back to 16
  // bits 6, gain 4. Kept: the copy, in place of the operand, and the quotient in 16 bits.
  t.norm = !llama   ? ElementCost{8 + spread(16, narrow), 9, 2}
           : narrow ? ElementCost{widened(6) + 8 + 4 + spread(8, false) + 6 + spread(4, true), 8, 3}
                    : ElementCost{6 + spread(8, false), 6, 1};
  t.residual = {6, 1};  // two operands and their sum
  if (framework.dropout) t.residual.bytes += 5, t.residual.kernels++;
  if (!llama) t.residual.bytes += 4, t.residual.kernels++;  // bias of the GEMM before
  // silu 4, times up 6; or, x/2 (1 + tanh(sqrt(2/pi) (x + .044715 x^3))): cube 4, times 4, plus x 6,
  // times 4, tanh 4, plus one 4, half of x 4, product 6. Kept: what silu gives; or tanh, half of x and one plus
  // tanh.
  t.activation = activation(kind, {36, 8, 3}, {10, 2, 1}, kSquaredRelu);
  if (!llama) t.activation.bytes += 4, t.activation.kernels++;  // bias
  // Scale 4, mask 4, softmax, clearing 2, dropout 5; in 16 bits the softmax has fp32, with a cast before it and one
  // back.
  t.scores = {10 + (narrow ? widened(6) + softmax(4) + 6 : softmax(2)), 4};
  if (framework.fused_softmax) t.scores = {4 + 2, 2};
  if (framework.dropout) t.scores.bytes += 5, t.scores.kernels++;
  return t;
}

LayerTraffic unfused_backward(const Transformer& model, FfnKind kind, const Training& training,
                              const Framework& framework) {
  const bool llama = !model.is_gpt(), narrow = bytes_per_element(training.precision) < 4;
  LayerTraffic t;
  // Gain: into x 4, its own product 6 and column sum 2; times 1/sqrt: into x 4, its own product 6 and row sum 2;
  // square: product 4, added up 6. GPT also: bias column sum 2, minus mean: row sum 2, broadcast and added 4. In fp32
  // all but the gain's take twice as much, and copies there and back 6 each.
  t.norm = !llama   ? ElementCost{30 + spread(12, narrow), 11}
           : narrow ? ElementCost{spread(4, true) + 8 + widened(6) + spread(16, false) + 16 + 12 + 6, 10}
                    : ElementCost{22 + spread(12, false), 8};
  t.residual = {6, 1};  // gradients of both branches, added
  if (framework.dropout) t.residual.bytes += 5, t.residual.kernels++;
  // SwiGLU: a product with two gradients of 6, silu 6. GELU: product 6 + 6, half 4, tanh 6, times 4, times 4, cube 4 +
  // 4 + 6, two sums 12.
  t.activation = activation(kind, {56, 11}, {18, 3}, kSquaredReluGradient);
  // Softmax 6, mask 4, scale 4, clearing 2, dropout 5; in 16 bits a softmax of fp32 with casts as in the forward.
  t.scores = {10 + (narrow ? widened(6) + softmax_gradient(12) + 6 : softmax_gradient(6)), 4};
  if (framework.fused_softmax) t.scores = {6 + 2, 2};
  if (framework.dropout) t.scores.bytes += 5, t.scores.kernels++;
  return t;
}

}  // namespace

LayerTraffic forward_traffic(const Transformer& model, FfnKind kind, const Training& training,
                             const Framework& framework) {
  return training.kernels == Kernels::fused ? fused_forward(kind, framework)
                                            : unfused_forward(model, kind, training, framework);
}

LayerTraffic backward_traffic(const Transformer& model, FfnKind kind, const Training& training,
                              const Framework& framework) {
  return training.kernels == Kernels::fused ? fused_backward(kind, framework)
                                            : unfused_backward(model, kind, training, framework);
}

// Of states that are smaller, or not there, what is missing is neither read nor written. torch's for-each AdamW goes
// over all tensors with one operation after the other: decay of the parameter 8; first moment scaled 8, gradient added
// 12; second moment scaled 8, square added 12; root 8, bias correction 8, epsilon 8; quotient added to the parameter
// 16: 88 where fused kernels move 28 (gradient 4, parameter and moments 8 each), of fp32; of 16 bits half (measured on
// an H100, as copies: 86 and 31; 48 and 18).
double optimizer_bytes(const Training& training, const Framework& framework) {
  Training usual = training;
  usual.moments = Moments::fp32, usual.master_copy = true;
  const auto more = training.optimizer->moves_more;
  const bool by_operation = framework.foreach_step && training.optimizer->moments == 2;
  const double widths = training.moments == Moments::fp32 ? 1 : training.moments == Moments::bf16 ? .5 : 0;
  return std::max(0., framework.optimizer_bytes + (more ? more(training) : 0) + (by_operation ? 60 * widths : 0) -
                          2 * (usual.optimizer_state_bytes() - training.optimizer_state_bytes()));
}

}  // namespace rehearsal::models
