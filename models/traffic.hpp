// Bytes per element and launches of the memory-bound kernels of a layer, for frameworks with fused kernels and without.
// Elements have 2 bytes, dropout masks 1. Derivation, operation by operation: models/README.md, section 2.
#pragma once
#include <cstdint>

#include "models/transformer.hpp"

namespace rehearsal::models {

struct ElementCost {
  double bytes = 0;          // read and written, per element
  std::int64_t kernels = 0;  // that share it
};

// One of the layer's two norms or residual additions; activation: per element of the MLP's inner width; scores: per
// score of the unfused attention core (softmax, its scale and mask, dropout, clearing the result).
struct LayerTraffic {
  ElementCost norm, residual, activation, scores;
};
LayerTraffic forward_traffic(const Transformer& model, const Training& training, const Software& software);
LayerTraffic backward_traffic(const Transformer& model, const Training& training, const Software& software);

// What Adam moves per parameter beyond the fused kernel that Software::optimizer_bytes counts.
double unfused_optimizer_bytes(const Training& training);

// Bytes per parameter of an update that LOMO makes at once: what it touches of the whole gradient, and of the
// parameters that are updated here; and of copies in fp32 that live meanwhile.
struct UpdateTraffic {
  double gradient, parameters, casts;
  double all() const { return gradient + parameters; }
};
inline constexpr std::int64_t kUpdateKernels = 6;  // of a tensor
UpdateTraffic lomo_update(Precision precision);

}  // namespace rehearsal::models
