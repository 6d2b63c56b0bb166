// The unfused entries count every operation as a kernel: r reads and w writes of 2-byte elements are 2 (r + w) bytes.
// They were never compared with a run.
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
  t.norm = !llama ? ElementCost{24, 9, 2} : narrow ? ElementCost{36, 8, 3} : ElementCost{14, 6, 1};
  t.residual = {6, 1};  // two operands and their sum
  if (framework.dropout) t.residual.bytes += 5, t.residual.kernels++;
  if (!llama) t.residual.bytes += 4, t.residual.kernels++;  // bias of the GEMM before
  // silu 4, times up 6; or, x/2 (1 + tanh(sqrt(2/pi) (x + .044715 x^3))): cube 4, times 4, plus x 6,
  // times 4, tanh 4, plus one 4, half of x 4, product 6. Kept: what silu gives; or tanh, half of x and one plus
  // tanh.
  t.activation = activation(kind, {36, 8, 3}, {10, 2, 1}, kSquaredRelu);
  if (!llama) t.activation.bytes += 4, t.activation.kernels++;  // bias
  t.scores = {19, 5};                                           // scale 4, mask 4, softmax 4, dropout 5, clearing 2
  return t;
}

LayerTraffic unfused_backward(const Transformer& model, FfnKind kind, const Training& training,
                              const Framework& framework) {
  const bool llama = !model.is_gpt(), narrow = bytes_per_element(training.precision) < 4;
  LayerTraffic t;
  // Gain: into x 4, its own product 6 and column sum 2; times 1/sqrt: into x 4, its own product 6 and row sum 2;
  // square: product 4, added up 6. GPT also: bias column sum 2, minus mean: row sum 2, broadcast and added 4. In fp32
  // all but the gain's take twice as much, and copies there and back 6 each.
  t.norm = !llama ? ElementCost{42, 11} : narrow ? ElementCost{68, 10} : ElementCost{34, 8};
  t.residual = {6, 1};  // gradients of both branches, added
  if (framework.dropout) t.residual.bytes += 5, t.residual.kernels++;
  // SwiGLU: a product with two gradients of 6, silu 6. GELU: product 6 + 6, half 4, tanh 6, times 4, times 4, cube 4 +
  // 4 + 6, two sums 12.
  t.activation = activation(kind, {56, 11}, {18, 3}, kSquaredReluGradient);
  t.scores = {21, 5};  // dropout 5, softmax 6, mask 4, scale 4, clearing 2
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

// Of states that are smaller, or not there, what is missing is neither read nor written.
double optimizer_bytes(const Training& training, const Framework& framework) {
  Training usual = training;
  usual.moments = Moments::fp32, usual.master_copy = true;
  const auto more = training.optimizer->moves_more;
  return std::max(0., framework.optimizer_bytes + (more ? more(training) : 0) -
                          2 * (usual.optimizer_state_bytes() - training.optimizer_state_bytes()));
}

}  // namespace rehearsal::models
