// Bytes per element and launches of the memory-bound kernels of a layer, for frameworks with fused kernels and without.
// Elements have 2 bytes, dropout masks 1. Derivation, operation by operation: models/README.md, section 2.
#pragma once
#include <cstdint>
#include <vector>

#include "models/part.hpp"

namespace rehearsal::models {

struct ElementCost {
  double bytes = 0;          // read and written, per element
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

// An update inside the backward (LOMO, AdaLOMO, AdamW), in bytes per parameter: what it touches of the whole gradient,
// and of the parameters that are updated here; what it makes in fp32 meanwhile, of either. Launches are of a tensor.
struct UpdateTraffic {
  double gradient = 0, parameters = 0, gradient_copies = 0, parameter_copies = 0;
  std::int64_t kernels = 0;
  double all() const { return gradient + parameters; }
  double copies() const { return gradient_copies + parameter_copies; }
};
UpdateTraffic update_at_once(const Training& training, const Framework& framework);
UpdateTraffic norm_at_once(const Training& training);  // in the backward before it, which takes norms alone

// The tensors of a part as LOMO's frameworks hold them, which is one by one: gate and up are two.
struct OneTensor {
  double elements = 0;
  bool experts = false;
};
std::vector<OneTensor> tensors_of(const std::vector<Segment>& segments);
double largest(const std::vector<OneTensor>& tensors);

// The matrices of a tensor, and where they begin in the segment; a vector is one row.
struct MatrixPlace {
  std::int64_t offset = 0, rows = 1, columns = 1;
  std::int64_t moments() const { return rows == 1 ? columns : rows + columns; }  // that AdaLOMO keeps
};
std::vector<MatrixPlace> matrices_of(const Tensor& tensor);

// Bytes of a second moment that is kept as the sums of rows and columns in fp32 (AdaLOMO; Adafactor, 1804.04235); of a
// vector all of it.
double factored_moment(const std::vector<Segment>& segments);

}  // namespace rehearsal::models
