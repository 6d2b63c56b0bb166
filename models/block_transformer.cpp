// The ends of a network, a layer, and the half of it that treats tokens one by one.
#include "models/block_parts.hpp"

namespace rehearsal::models {

using enum OperatorKind;

Block BlockParts::embedding() const {
  BlockBuilder b;
  b.segment(model_.tie_embeddings);
  const Index table = b.parameter(token_table(TensorKind::token_table));
  const Index x = tokens(b, local_.hidden);
  b.add(embed, "embedding", {}, {x}, {table});
  Index y = leave(b, x);
  if (gpt_ && (model_.learned_positions || model_.embedding_norm)) b.segment();
  if (gpt_ && model_.learned_positions) {
    const Index positions = b.parameter(whole(TensorKind::position_table, options_.shard.sequence, local_.hidden));
    b.add(add_positions, "positions", {y}, {y}, {positions});
  }
  if (gpt_ && model_.embedding_norm) {
    const List norms = norm_parameters(b, TensorKind::norm_gain, TensorKind::norm_bias);
    const Index normed = residual(b);
    b.add(norm, "embedding norm", {y}, {normed}, norms);
    y = normed;
  }
  return b.finish(std::nullopt, y);
}

Block BlockParts::layer() const {
  BlockBuilder b;
  b.segment();
  const Index x = residual(b);
  Index joined = x;
  if (layer_.skip == SkipEnd::takes) {
    const Index skip = residual(b);
    joined = residual(b);
    b.add(skip_add, "skip", {skip, x}, {joined});
    b.take_skip(skip);
  }
  const Index y = layer_of(b, joined);
  if (layer_.skip == SkipEnd::gives) {
    const Index skip = residual(b);
    b.section(Section::none);
    b.add(skip_out, "skip", {y}, {skip});
    b.give_skip(skip);
  }
  return b.finish(x, y);
}

Block BlockParts::prediction(bool with_loss) const {
  BlockBuilder b;
  b.segment();
  const std::int64_t h = local_.hidden;
  const Index x = residual(b), hidden = residual(b), embedded = residual(b), normed = residual(b);
  const Index both = rows_of(b, x, 2 * h), joined = residual(b), out = residual(b);
  if (with_loss) b.add(skip_out, "pass on", {x}, {out});
  b.section(Section::attention);
  b.add(norm, "norm", {x}, {hidden}, {b.parameter(whole(TensorKind::norm1_gain, h))});
  b.add(skip_out, "embedding of the next", {x}, {embedded});
  b.add(norm, "norm", {embedded}, {normed}, {b.parameter(whole(TensorKind::norm1_gain, h))});
  b.add(concatenate, "concatenate", {hidden, normed}, {both});
  b.add(linear, "join", {both}, {joined}, {b.parameter(whole(TensorKind::joining_weight, h, 2 * h))});
  const Index last = layer_of(b, joined);
  if (!with_loss) return b.finish(x, last);
  b.section(Section::none);
  b.segment();
  logits_and_loss(b, last, {});
  return b.finish(x, out);
}

// Final norm, logits over the sharded vocabulary, cross-entropy.
Block BlockParts::head() const {
  BlockBuilder b;
  b.segment(model_.tie_embeddings);
  const Tensor table = token_table(model_.tie_embeddings ? TensorKind::token_table : TensorKind::head_weight);
  const Index weight = b.parameter(table);
  b.segment();
  const Index x = residual(b);
  logits_and_loss(b, x, {weight});
  return b.finish(x, std::nullopt);
}

BlockParts::Index BlockParts::residual(BlockBuilder& b) const {
  const std::int64_t all = local_.tokens * local_.hidden;
  return b.value(scattered() ? all / t_ : all, local_.hidden);
}

BlockParts::List BlockParts::norm_parameters(BlockBuilder& b, TensorKind gain, TensorKind bias) const {
  List list{b.parameter(whole(gain, local_.hidden))};
  if (gpt_) list.push_back(b.parameter(whole(bias, local_.hidden)));
  return list;
}

// At the edges of what tensor parallelism splits. Without sequence parallelism the value stays the same.
BlockParts::Index BlockParts::enter(BlockBuilder& b, Index x) const {
  if (t_ == 1) return x;
  const Index y = scattered() ? tokens(b, local_.hidden) : x;
  b.add(OperatorKind::tp_scatter_in, "enter", {x}, {y});
  return y;
}

BlockParts::Index BlockParts::leave(BlockBuilder& b, Index x) const {
  if (t_ == 1) return x;
  const Index y = scattered() ? residual(b) : x;
  b.add(OperatorKind::tp_reduce_out, "leave", {x}, {y});
  return y;
}

Tensor BlockParts::token_table(TensorKind kind) const {
  const std::int64_t slice =
      options_.pad_vocabulary ? vocabulary_slice(model_, t_ * options_.shard.vocabulary) : model_.vocabulary;
  return {kind, 0, 0, 1, slice, local_.hidden, model_.vocabulary, t_ > 1 ? Split::tensor : Split::none};
}

BlockParts::Index BlockParts::layer_of(BlockBuilder& b, Index x) const {
  const Index middle = mixer_half(b, x);
  if (layer_.ffn.nothing()) return middle;
  return layer_.ffn.has_experts() ? experts_half(b, middle) : mlp_half(b, middle);
}

// x + MLP(norm(x))
BlockParts::Index BlockParts::mlp_half(BlockBuilder& b, Index x) const {
  b.section(Section::feed_forward, RecomputeModule::layernorm);
  const List norm2 = norm_parameters(b, TensorKind::norm2_gain, TensorKind::norm2_bias);
  const std::int64_t h = local_.hidden, f = local_.ffn;
  List up{b.parameter(gated_ ? column_parallel(TensorKind::gate_up_weight, 2, f * t_, h, t_)
                             : column_parallel(TensorKind::up_weight, 1, f * t_, h, t_))};
  if (gpt_) up.push_back(b.parameter(column_parallel(TensorKind::up_bias, gated_ ? 2 : 1, f * t_, 1, t_)));
  const List down{b.parameter(row_parallel(TensorKind::down_weight, h, f * t_, t_))};
  List branch;
  if (gpt_) branch.push_back(b.parameter(whole(TensorKind::down_bias, h)));

  const Index y = residual(b);
  b.add(norm, "norm", {x}, {y}, norm2);
  b.module(RecomputeModule::mlp);
  const Index entered = enter(b, y);
  List u;
  if (gated_ && options_.separate_projections)
    u = {tokens(b, f), tokens(b, f)};
  else
    u = {tokens(b, local_.up)};
  b.add(linear, "mlp up", {entered}, u, up);
  const Index g = tokens(b, f);
  b.module(RecomputeModule::mlp_act);
  b.add(activate, "activation", u, {g});
  b.module(RecomputeModule::mlp);
  const Index z = tokens(b, h);
  b.add(linear, "mlp down", {g}, {z}, down);
  return add_branch(b, x, z, std::move(branch));
}

// A value with as many rows as another one.
BlockParts::Index BlockParts::rows_of(BlockBuilder& b, Index like, std::int64_t columns) const {
  const auto& value = b.at(like);
  return b.value(value.elements / value.columns * columns, columns);
}

BlockParts::Index BlockParts::add_branch(BlockBuilder& b, Index x, Index z, List parameters) const {
  const Index branch = leave(b, z);
  b.module({});
  const Index sum = residual(b);
  b.add(add, "add", {x, branch}, {sum}, std::move(parameters));
  return sum;
}

void BlockParts::logits_and_loss(BlockBuilder& b, Index x, List weight) const {
  const List norms = norm_parameters(b, TensorKind::norm_gain, TensorKind::norm_bias);
  const Index y = residual(b);
  b.add(norm, "final norm", {x}, {y}, norms);
  const Index entered = enter(b, y);
  const Index logits = tokens(b, token_table(TensorKind::head_weight).slice);
  b.add(linear, "head", {entered}, {logits}, std::move(weight));
  b.add(loss, "cross-entropy", {logits}, {});
}

NetworkBlocks transformer_blocks(const Transformer& model, const LayerTable& table, const BlockOptions& options) {
  const BlockParts ends(model, table.rows.front().spec, options);
  NetworkBlocks all{.embedding = ends.embedding(), .head = ends.head()};
  for (const auto& row : table.rows) all.layers.push_back(BlockParts(model, row.spec, options).layer());
  if (model.mtp_layers > 0) all.prediction = BlockParts(model, table.last(), options).prediction(true);
  if (options.shard.lone_modules) all.body = BlockParts(model, table.last(), options).prediction(false);
  return all;
}

}  // namespace rehearsal::models
