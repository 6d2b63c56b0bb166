// What a part of a network computes, on one rank of its groups: operators with the values that they read and write, in
// the order of the forward pass. There is one list for each part; it is rewritten into steps for a framework
// (framework.hpp) or for native kernels (rehearsal.hpp), and the backward pass follows from reading the list in
// reverse.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/axes.hpp"
#include "base/tensor.hpp"
#include "models/part.hpp"
#include "models/transformer.hpp"

namespace rehearsal::models {

enum class OperatorKind : std::uint8_t {
  embed,          // (; y)  rows of the token table; parameters: the table
  add_positions,  // (x; y = x)  parameters: positions, learned
  load_rows,      // (; y)  of an mlp, whose inputs are given
  norm,           // (x; y)  layer norm or RMS norm; parameters: gain, bias
  tp_scatter_in,  // (x; y)  into what is cut over an axis: nothing, or a gather of sequence parallelism
  linear,         // (x; y...)  y = x weight^T + bias, its columns dealt to the outputs; parameters: weights, bias
  rotate,         // (qkv...; y...)  rotary embedding, and what else happens to queries, keys and values one by one
  head_norm,      // (q k v or all in one; q and k)  parameters: a gain each
  index,          // (index queries, index key, weights; chosen)  the keys that each query sees
  attention,      // (q k v..., chosen; y)
  gate,           // (x, gate; y)  x times a sigmoid of the gate; or the norm of x times that. parameters: its gain
  convolve,       // (x; y)  short convolution over tokens, column by column; parameters: taps, bias
  scan,           // (q k v, scalars; y)  recurrent mixers: the state goes from token to token; parameters: of a head
  activate,       // (u...; y)  GELU, or SwiGLU of gate and up
  tp_reduce_out,  // (x; y)  out of what is cut over an axis: partial sums are added up
  add,            // (x, branch; y)  residual; parameters: bias of the branch
  add_bias,       // (x; y = x)  parameters: bias
  route,          // (x; probabilities, chosen)  which experts a token goes to; parameters: the router
  dispatch,       // (x, chosen; rows)  tokens to the ranks of their experts, in the order of those
  gather_rows,    // (rows; all)  of the ranks that share an expert
  expert_linear,  // (rows; y)  a product for each expert of the rank; parameters: weights
  scatter_rows,   // (all; rows)  sums of the ranks that share an expert
  combine,        // (rows, chosen; y)  back to the ranks of the tokens, and added up there by weight
  own_rows,       // (x; y)  of what all ranks of a tensor group have, each its part
  all_rows,       // (x; y)  and back
  skip_add,       // (a, b; y)  their sum
  concatenate,    // (a, b; y)  columns of both
  skip_out,       // (x; y)  what goes on beside what was made of it
  loss,           // (logits;)  cross-entropy over the vocabulary
  squared_error   // (y;)
};

// Of a layer; embedding and head have none.
enum class Section : std::uint8_t { none, attention, feed_forward, router, experts };

struct Operator {
  using Index = std::uint16_t;
  OperatorKind kind{};
  std::string_view name;            // "qkv", "mlp up"
  std::vector<Index> in, out;       // values
  std::vector<Index> parameters{};  // tensors, counted through the segments
  Section section = Section::none;
  std::optional<RecomputeModule> module{};  // that it belongs to
};

// On one rank: with sequence parallelism, of its own tokens.
struct BlockValue {
  std::int64_t elements = 0, columns = 0;
};

struct Block {
  LayerSpec layer;  // of the ends: of the first layer
  std::vector<BlockValue> values;
  std::vector<Segment> segments;
  std::vector<Operator> operators;
  std::optional<std::uint16_t> input, output;
  std::optional<std::uint16_t> skip_given, skip_taken;  // of a skip connection: made here for another part, or by one

  std::int64_t columns(const std::vector<std::uint16_t>& list) const {
    std::int64_t sum = 0;
    for (const auto v : list) sum += values[v].columns;
    return sum;
  }
  const Tensor& tensor(std::uint16_t parameter) const;
};

struct NetworkBlocks {
  LayerTable table{};
  Block embedding{}, head{};
  std::vector<Block> layers{};  // one for each row of the table
  // A module of multi-token prediction (DeepSeek-V3, 2412.19437, section 2.2): the hidden states of two tokens become
  // one, a layer, and the head once more; its input goes on to the head of the network.
  Block prediction{};
  Block body{};  // the same without the head, which another stage has
};

// How the blocks of a model are written down.
struct BlockOptions {
  Shard shard;
  bool pad_vocabulary = true;  // to a multiple of 128 t; the serial reference does without
  // Queries, keys and values, and gate and up, are values of their own.
  bool separate_projections = false;
  // What the product before a scan makes (values with keys and queries, a gate, steps) are products of their own, whose
  // tensors, like all of the mixer, are cut over tensor ranks part by part: whole ones are the same at every degree.
  bool separate_mixer = false;
  double routed = 1;  // rows that the busiest rank gets per token and chosen expert
};
NetworkBlocks blocks(const Transformer& model, const BlockOptions& options);

}  // namespace rehearsal::models
