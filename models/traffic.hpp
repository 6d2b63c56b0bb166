// Bytes per element and launches of the memory-bound kernels of a layer, for frameworks with fused kernels and without.
// Elements have 2 bytes, dropout masks 1. Derivation, operation by operation: models/README.md, section 2.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "models/part.hpp"

namespace rehearsal::models {

struct ElementCost {
  Moved bytes;               // read and written, per element
  std::int64_t kernels = 0;  // that share it
  // Elements kept for each element of its result: intermediate values that its gradients read, besides its operands and
  // the result.
  double kept = 0;
};

// One of the layer's two norms or residual additions; activation: per element of the MLP's inner width; scores: per
// score of the unfused attention core (softmax, its scale and mask, dropout, clearing the result).
struct LayerTraffic {
  ElementCost norm, residual, activation, scores;
};
LayerTraffic forward_traffic(const Transformer& model, FfnKind kind, const Training& training,
                             const Framework& framework);
LayerTraffic backward_traffic(const Transformer& model, FfnKind kind, const Training& training,
                              const Framework& framework);

// What a step moves per parameter: Framework::optimizer_bytes of states in fp32 by a fused kernel, and what differs.
double optimizer_bytes(const Training& training, const Framework& framework);

// Bytes an element of eager operations on fp32: a cast from or to 16 bits, in place, of two operands, reduced.
inline constexpr double kCast = 6, kInPlace = 8, kOfTwo = 12, kReduced = 4;

// How much longer than a copy of as many bytes eager kernels of torch take, of PyTorch 2.11 on an H100, where memory
// and multiprocessors are about as fast (Gpu::eager_rate): a cast to fp32 (tests/fidelity/measured_h100.csv, 1.95
// of 2.95 TB/s); a product with a row or a column that is the same for all, in 16 bits and in fp32, whose kernels read
// element by element (tests/fidelity/trainer_h100_kernels.csv, elementwise_kernel<128, 4> and <128, 2> of a step
// without recomputation); the gradient of a softmax in fp32. What is beyond the copy does not become faster with the
// memory: on an H200, whose memory is 1.42 times as fast, a cast takes 1 / 1.09 of its time and a softmax 1 / 1.02.
inline constexpr double kWiden = 1.5, kSpread = 2.2, kSpreadWide = 1.3, kSoftmaxGradient = 1.3;
constexpr Moved longer(double bytes, double times) { return {bytes, (times - 1) * bytes}; }
constexpr Moved widened(double bytes) { return longer(bytes, kWiden); }
constexpr Moved spread(double bytes, bool narrow) { return longer(bytes, narrow ? kSpread : kSpreadWide); }
constexpr Moved softmax_gradient(double bytes) { return longer(bytes, kSoftmaxGradient); }
// A softmax in fp32 of 16 bits, over rows of 2,048 to 8,192, takes as long for an element as a copy of 9.6 bytes (the
// first of the two) where it moves 4.
inline constexpr double kSoftmax = 2.4;
constexpr Moved softmax(double bytes) { return longer(bytes, kSoftmax); }

// An update inside the backward, and what finds infinities before it.
UpdateTraffic update_at_once(const Training& training, const Framework& framework);
UpdateTraffic norm_at_once(const Training& training);      // in the backward before it, which takes norms alone
UpdateTraffic norm_of_gradient(const Training& training);  // a cast, and the norm (lomo.py, func with gather_norm)

// The tensors of a part as frameworks hold them, which is one by one: gate and up are two.
struct OneTensor {
  double elements = 0;
  bool experts = false;
};
std::vector<OneTensor> tensors_of(const std::vector<Segment>& segments);
double largest(const std::vector<OneTensor>& tensors);

// The matrices of a tensor, and where they begin in the segment; a vector is one row.
struct MatrixPlace {
  std::int64_t offset = 0, rows = 1, columns = 1;
};
std::vector<MatrixPlace> matrices_of(const Tensor& tensor);
std::vector<MatrixPlace> matrices_of(std::span<const Tensor> tensors);

}  // namespace rehearsal::models
