// What a model costs in closed form, without a machine: FLOPs of the passes of a layer, bytes that they leave for each
// other, and how far the experts of a token are spread. The first two are Zero Bubble's table 1 (2401.10241) for GPT:
// F = s b h (24 h + 4 s), B = s b h (24 h + 8 s), W = 24 s b h^2; 34 + 5 a s/h bytes per s b h between F and B, 32
// between B and W. Equations: models/README.md, sections 1 and 4.
#pragma once
#include <optional>

#include "models/transformer.hpp"

namespace rehearsal::models {

// Of one layer, by its row in the table, whole, for one sequence of `sequence` tokens.
struct LayerForms {
  double met = 0;  // entries of the matrices that a token meets
  Flops forward, input_gradient, weight_gradient;
  // Kept from forward to input gradient, and from that to weight gradient; in 2 bytes, attention fused, no dropout.
  // Only for layers that a framework's part exists for.
  std::optional<Bytes> activation, weight_hold;
};
LayerForms layer_forms(const Transformer& model, std::size_t row, std::int64_t sequence);

// The expected number of groups (GPUs, nodes), among `groups` that share `experts` evenly, that hold one of the k
// experts of a token, over all choices of k: n (1 - C(E - E/n, k) / C(E, k)).
double expected_groups(std::int64_t experts, std::int64_t k, std::int64_t groups);

}  // namespace rehearsal::models
