// The parameters of a network, one by one: the shared vocabulary of models (which there are), graph (where they are
// held) and hw (what is in them). fp32.
#pragma once
#include <cstdint>
#include <vector>

#include "base/axes.hpp"

namespace rehearsal {

enum class TensorKind : std::uint8_t {
  token_table,
  position_table,
  norm1_gain,
  norm1_bias,
  qkv_weight,
  qv_bias,
  out_weight,
  out_bias,
  norm2_gain,
  norm2_bias,
  up_weight,
  up_bias,
  down_weight,
  down_bias,
  norm_gain,
  norm_bias,
  head_weight,
  // Llama. Kinds are appended: initial values are drawn by their number.
  query_weight,  // in place of qkv_weight: one after the other, rows of one matrix
  key_weight,
  value_weight,
  gate_up_weight,  // outer: gate, up
  // Mixture of experts. Of an expert's gate and up, or down, the rows follow each other: [1, experts x rows, inputs].
  router_weight,
  expert_gate_up_weight,
  expert_down_weight,
  shared_gate_up_weight,  // of the experts that every row goes to: as gate_up_weight and down_weight
  shared_down_weight,
  qkv_bias,          // of frameworks; this program's own keys have none (qv_bias)
  expert_up_weight,  // without a gate
  // Latent attention (2405.04434, section 2.1): into the narrow products and out of them.
  query_down_weight,
  query_up_weight,
  latent_down_weight,
  latent_up_weight,
  latent_gain,
  joining_weight,  // multi-token prediction: two hidden states to one
  output_gate_weight,
  sinks,
  head_gain,
  // Indexers; recurrent mixers; experts on fewer columns. Of frameworks alone, but for head_scalars.
  index_weight,
  mixer_in_weight,
  convolution,
  head_scalars,
  latent_expert_weight,
  // Mamba-2 of own kernels, in place of mixer_in_weight and convolution: values, then B and C, rows of one matrix; the
  // gate; steps. Taps of the same columns, with their bias behind them.
  mixer_value_weight,
  mixer_state_weight,
  mixer_gate_weight,
  mixer_step_weight,
  value_convolution,
  state_convolution
};
const char* name(TensorKind kind);
bool is_of_layer(TensorKind kind);  // one per layer; the others stand at the ends of the network
bool is_of_experts(TensorKind kind);
// Whole on every rank, or a slice over the tensor-parallel group or that of the ranks that share an expert.
enum class Split : std::uint8_t { none, tensor, expert_tensor };

struct Tensor {
  TensorKind kind{};
  std::uint32_t layer = 0;  // of the model; 0 for what is outside the layers
  std::int64_t offset = 0;  // elements, in the segment
  // The part held here: [outer, slice, inner], row major; the whole tensor is [outer, extent, inner] and rank i of the
  // group holds entries i slice .. (i+1) slice of the middle dimension (those beyond `extent` are padding).
  std::int64_t outer = 1, slice = 1, inner = 1, extent = 1;
  Split split = Split::none;
  // For experts: a rank holds `outer` of the `outer_extent` entries of the outer dimension. 0: all of them.
  std::int64_t outer_extent = 0;
  // Each tensor rank has the gradient of different rows: the whole gradient is their sum.
  bool summed_over_tensor = false;
  std::int64_t elements() const { return outer * slice * inner; }
  std::int64_t outers() const { return outer_extent > 0 ? outer_extent : outer; }
  // The first entry of the middle dimension that a rank holds, and of the outer one.
  std::int64_t first(const RankPlace& place) const {
    if (split == Split::none) return 0;
    return place[split == Split::tensor ? Axis::tensor : Axis::expert_tensor] * slice;
  }
  std::int64_t first_outer(const RankPlace& place) const { return outer_extent > 0 ? place[Axis::expert] * outer : 0; }
};

// The axis along which a segment of these tensors is replicated, and its states are sharded: for experts, which have
// segments of their own, another one.
Axis replicas_of(const std::vector<Tensor>& segment);

}  // namespace rehearsal
