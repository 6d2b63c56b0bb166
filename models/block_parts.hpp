// One part of a network: an end, or a layer as its row of the table says. GPT-2's pre-norm block (Radford et al. 2019,
// section 2.3) and Llama's (2302.13971, section 2.2), in the tensor-parallel form of Megatron-LM (1909.08053, section
// 3): the first linear layer of each half is split along its outputs, the second along its inputs; with sequence
// parallelism (Korthikanti 2205.05198, section 4.2.2) everything in between is split along the tokens.
#pragma once
#include "models/block_builder.hpp"
#include "models/shapes.hpp"

namespace rehearsal::models {

class BlockParts {
 public:
  BlockParts(const Transformer& model, const LayerSpec& layer, const BlockOptions& options)
      : model_(model),
        layer_(layer),
        options_(options),
        t_(options.shard.tensor),
        local_(local_shape(model, layer, options.shard)),
        gpt_(model.is_gpt()),
        gated_(layer.ffn.gated()) {}

  Block embedding() const;
  Block layer() const;
  Block prediction(bool with_loss) const;
  Block head() const;

 private:
  using Index = BlockBuilder::Index;
  using List = BlockBuilder::List;

  // --- block_transformer.cpp
  Index residual(BlockBuilder& b) const;
  List norm_parameters(BlockBuilder& b, TensorKind gain, TensorKind bias) const;
  Index enter(BlockBuilder& b, Index x) const;
  Index leave(BlockBuilder& b, Index x) const;
  Index rows_of(BlockBuilder& b, Index like, std::int64_t columns) const;
  Index add_branch(BlockBuilder& b, Index x, Index z, List parameters) const;
  Tensor token_table(TensorKind kind) const;
  void logits_and_loss(BlockBuilder& b, Index x, List weight) const;
  Index layer_of(BlockBuilder& b, Index x) const;
  Index mlp_half(BlockBuilder& b, Index x) const;
  // --- block_attention.cpp
  Index mixer_half(BlockBuilder& b, Index x) const;
  Index attention_half(BlockBuilder& b, Index x) const;
  Index recurrent_half(BlockBuilder& b, Index x) const;
  Index state_space_half(BlockBuilder& b, Index x) const;
  List heads(BlockBuilder& b, Index entered, const List& weights) const;
  Index chosen_keys(BlockBuilder& b, Index y, Index queries_of) const;
  Index gated(BlockBuilder& b, Index entered, Index x) const;
  List latent_heads(BlockBuilder& b, Index y) const;
  List attention_inputs(BlockBuilder& b) const;
  // --- block_experts.cpp
  Index experts_half(BlockBuilder& b, Index x) const;
  Index shared_experts(BlockBuilder& b, Index y) const;
  Tensor experts(TensorKind kind, std::int64_t outer, std::int64_t slice, std::int64_t inner) const;

  Index tokens(BlockBuilder& b, std::int64_t columns) const { return b.value(local_.tokens * columns, columns); }
  bool scattered() const { return t_ > 1 && options_.shard.sequence_parallel; }

  const Transformer& model_;
  const LayerSpec& layer_;
  const BlockOptions& options_;
  const std::int64_t t_;
  const LocalShape local_;
  const bool gpt_, gated_;
};

}  // namespace rehearsal::models
