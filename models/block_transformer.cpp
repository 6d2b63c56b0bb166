// GPT-2's pre-norm block (Radford et al. 2019, section 2.3) and Llama's (2302.13971, section 2.2), in the
// tensor-parallel form of Megatron-LM (1909.08053, section 3): the first linear layer of each half is split along its
// outputs, the second along its inputs; with sequence parallelism (Korthikanti 2205.05198, section 4.2.2) everything in
// between is split along the tokens.
#include <cmath>

#include "models/block_builder.hpp"
#include "models/shapes.hpp"

namespace rehearsal::models {
namespace {

using enum OperatorKind;
using Index = BlockBuilder::Index;
using List = BlockBuilder::List;

// The parts of a network whose layers are like `layer`.
class Parts {
 public:
  Parts(const Transformer& model, const LayerSpec& layer, const BlockOptions& options)
      : model_(model),
        layer_(layer),
        options_(options),
        t_(options.shard.tensor),
        local_(local_shape(model, layer, options.shard)),
        gpt_(model.is_gpt()),
        gated_(layer.ffn.gated()) {}

  Block embedding() const {
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
  Block layer() const {
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
  Block prediction() const {
    BlockBuilder b;
    b.segment();
    const std::int64_t h = local_.hidden;
    const Index x = residual(b), hidden = residual(b), embedded = residual(b), normed = residual(b);
    const Index both = rows_of(b, x, 2 * h), joined = residual(b), out = residual(b);
    b.add(skip_out, "pass on", {x}, {out});
    b.section(Section::attention);
    b.add(norm, "norm", {x}, {hidden}, {b.parameter(whole(TensorKind::norm1_gain, h))});
    b.add(skip_out, "embedding of the next", {x}, {embedded});
    b.add(norm, "norm", {embedded}, {normed}, {b.parameter(whole(TensorKind::norm1_gain, h))});
    b.add(concatenate, "concatenate", {hidden, normed}, {both});
    b.add(linear, "join", {both}, {joined}, {b.parameter(whole(TensorKind::joining_weight, h, 2 * h))});
    const Index last = layer_of(b, joined);
    b.section(Section::none);
    b.segment();
    logits_and_loss(b, last, {});
    return b.finish(x, out);
  }
  // Final norm, logits over the sharded vocabulary, cross-entropy.
  Block head() const {
    BlockBuilder b;
    b.segment(model_.tie_embeddings);
    const Tensor table = token_table(model_.tie_embeddings ? TensorKind::token_table : TensorKind::head_weight);
    const Index weight = b.parameter(table);
    b.segment();
    const Index x = residual(b);
    logits_and_loss(b, x, {weight});
    return b.finish(x, std::nullopt);
  }

 private:
  Index residual(BlockBuilder& b) const {
    const std::int64_t all = local_.tokens * local_.hidden;
    return b.value(scattered() ? all / t_ : all, local_.hidden);
  }
  Index tokens(BlockBuilder& b, std::int64_t columns) const { return b.value(local_.tokens * columns, columns); }
  bool scattered() const { return t_ > 1 && options_.shard.sequence_parallel; }

  List norm_parameters(BlockBuilder& b, TensorKind gain, TensorKind bias) const {
    List list{b.parameter(whole(gain, local_.hidden))};
    if (gpt_) list.push_back(b.parameter(whole(bias, local_.hidden)));
    return list;
  }
  // At the edges of what tensor parallelism splits. Without sequence parallelism the value stays the same.
  Index enter(BlockBuilder& b, Index x) const {
    if (t_ == 1) return x;
    const Index y = scattered() ? tokens(b, local_.hidden) : x;
    b.add(OperatorKind::tp_scatter_in, "enter", {x}, {y});
    return y;
  }
  Index leave(BlockBuilder& b, Index x) const {
    if (t_ == 1) return x;
    const Index y = scattered() ? residual(b) : x;
    b.add(OperatorKind::tp_reduce_out, "leave", {x}, {y});
    return y;
  }

  Tensor token_table(TensorKind kind) const {
    const std::int64_t slice = options_.pad_vocabulary ? vocabulary_slice(model_, t_) : model_.vocabulary;
    return {kind, 0, 0, 1, slice, local_.hidden, model_.vocabulary, t_ > 1 ? Split::tensor : Split::none};
  }

  Index layer_of(BlockBuilder& b, Index x) const {
    const Index middle = attention_half(b, x);
    return layer_.ffn.has_experts() ? experts_half(b, middle) : mlp_half(b, middle);
  }

  // x + attention(norm(x))
  Index attention_half(BlockBuilder& b, Index x) const {
    b.section(Section::attention, RecomputeModule::layernorm);
    const List norm1 = norm_parameters(b, TensorKind::norm1_gain, TensorKind::norm1_bias);
    const List weights = layer_.mixer.mla ? List{} : attention_inputs(b);
    const std::int64_t width = local_.heads * layer_.mixer.value_dim();
    const List out_parameters{b.parameter(row_parallel(TensorKind::out_weight, local_.hidden, width * t_, t_))};
    List branch;
    if (gpt_) branch.push_back(b.parameter(whole(TensorKind::out_bias, local_.hidden)));

    const Index y = residual(b);
    b.add(norm, "norm", {x}, {y}, norm1);
    b.module({});
    const List seen = layer_.mixer.mla ? latent_heads(b, y) : heads(b, y, weights);
    b.module(RecomputeModule::core_attn);
    const Index out = tokens(b, width);
    b.add(attention, "attention", seen, {out});
    b.module({});
    const Index z = tokens(b, local_.hidden);
    b.add(linear, "attention out", {out}, {z}, out_parameters);
    return add_branch(b, x, z, std::move(branch));
  }
  // Queries, keys and values.
  List heads(BlockBuilder& b, Index y, const List& weights) const {
    const Index entered = enter(b, y);
    List heads;
    if (options_.separate_projections)
      heads = {tokens(b, local_.query), tokens(b, kv()), tokens(b, kv())};
    else
      heads = {tokens(b, local_.qkv)};
    b.add(linear, "qkv", {entered}, heads, weights);
    b.add(rotate, gpt_ ? "transpose" : "rope", heads, heads);  // only rotated ones are kept
    return heads;
  }
  // DeepSeek-V2 (2405.04434), section 2.1: queries and the latent of keys and values are made of the rank's own tokens;
  // heads are made of these, and joined with the columns that carry the position.
  List latent_heads(BlockBuilder& b, Index y) const {
    const auto& m = *layer_.mixer.mla;
    const std::int64_t a = local_.heads, q = a * layer_.mixer.score_dim(), kv = a * (m.head_dim + m.value_dim);
    const auto narrow = [&](std::string_view name, TensorKind kind, std::int64_t columns) {
      const Index made = rows_of(b, y, columns);
      b.add(linear, name, {y}, {made}, {b.parameter(whole(kind, columns, local_.hidden))});
      return made;
    };
    const auto widen = [&](std::string_view name, TensorKind kind, Index from, std::int64_t rank,
                           std::int64_t columns) {
      const Index normed = rows_of(b, from, rank), made = tokens(b, columns);
      b.add(norm, "latent norm", {from}, {normed}, {b.parameter(whole(TensorKind::latent_gain, rank))});
      const Index entered = scattered() ? tokens(b, rank) : normed;
      if (t_ > 1) b.add(OperatorKind::tp_scatter_in, "enter", {normed}, {entered});
      b.add(linear, name, {entered}, {made}, {b.parameter(column_parallel(kind, 1, columns * t_, rank, t_))});
      return made;
    };
    Index queries;
    const Index latent = narrow("latent down", TensorKind::latent_down_weight, m.kv_rank + m.rotary_dim);
    if (m.query_rank > 0) {
      const Index down = narrow("query down", TensorKind::query_down_weight, m.query_rank);
      b.module(RecomputeModule::mla_up_proj);
      queries = widen("query up", TensorKind::query_up_weight, down, m.query_rank, q);
    } else {
      queries = tokens(b, q);
      b.add(linear, "query up", {enter(b, y)}, {queries},
            {b.parameter(column_parallel(TensorKind::query_up_weight, 1, q * t_, local_.hidden, t_))});
      b.module(RecomputeModule::mla_up_proj);
    }
    const Index keys = widen("latent up", TensorKind::latent_up_weight, latent, m.kv_rank, kv);
    const List seen{tokens(b, q), tokens(b, q), tokens(b, a * m.value_dim)};
    b.add(rotate, "rope", {queries, keys}, seen);
    b.module({});
    return seen;
  }
  // A value with as many rows as another one.
  Index rows_of(BlockBuilder& b, Index like, std::int64_t columns) const {
    const auto& value = b.at(like);
    return b.value(value.elements / value.columns * columns, columns);
  }
  std::int64_t kv() const { return (local_.qkv - local_.query) / 2; }  // width of the keys
  // One matrix [3, heads x d, h] if there are as many keys as queries, else three; GPT has biases.
  List attention_inputs(BlockBuilder& b) const {
    const std::int64_t h = local_.hidden, query = local_.query * t_;
    if (kv() == local_.query) {
      List list{b.parameter(column_parallel(TensorKind::qkv_weight, 3, query, h, t_))};
      if (gpt_) list.push_back(b.parameter(column_parallel(TensorKind::qkv_bias, 3, query, 1, t_)));
      return list;
    }
    List list{b.parameter(column_parallel(TensorKind::query_weight, 1, query, h, t_)),
              b.parameter(column_parallel(TensorKind::key_weight, 1, kv() * t_, h, t_)),
              b.parameter(column_parallel(TensorKind::value_weight, 1, kv() * t_, h, t_))};
    if (gpt_) list.push_back(b.parameter(column_parallel(TensorKind::qkv_bias, 1, local_.qkv * t_, 1, t_)));
    return list;
  }

  // x + MLP(norm(x))
  Index mlp_half(BlockBuilder& b, Index x) const {
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
    b.add(activate, "activation", u, {g});
    const Index z = tokens(b, h);
    b.add(linear, "mlp down", {g}, {z}, down);
    return add_branch(b, x, z, std::move(branch));
  }

  // x + sum of the chosen experts of norm(x), by weight + the shared experts. The router, dispatch and the experts work
  // on the rank's own tokens, even if all ranks of a tensor group hold all of them; shared experts are split over the
  // tensor group like any feed-forward layer.
  Index experts_half(BlockBuilder& b, Index x) const {
    const auto& ffn = layer_.ffn;
    const std::int64_t h = local_.hidden, k = ffn.experts_per_token, held = options_.shard.experts_held(ffn.experts);
    const std::int64_t x_ = options_.shard.expert_tensor, f = ffn.expert_width / x_, up = ffn.up_projections();
    b.section(Section::router, RecomputeModule::layernorm);
    const List norm2 = norm_parameters(b, TensorKind::norm2_gain, TensorKind::norm2_bias);
    const Index router = b.parameter(whole(TensorKind::router_weight, ffn.experts, h));
    const Index normed = residual(b);
    b.add(norm, "norm", {x}, {normed}, norm2);
    const bool cuts = t_ > 1 && !scattered();
    const Index y = cuts ? b.value(b.at(normed).elements / t_, h) : normed;
    if (cuts) b.add(own_rows, "own tokens", {normed}, {y});
    const std::int64_t own = b.at(y).elements / h;
    const auto rows = static_cast<std::int64_t>(std::ceil(double(own * k) * options_.routed));
    const auto routed = [&](std::int64_t ranks, std::int64_t columns) {
      return b.value(rows * ranks * columns, columns);
    };
    b.module(RecomputeModule::moe);
    const Index probabilities = b.value(own * ffn.experts, ffn.experts), chosen = b.value(own * k, k);
    b.add(route, "router", {y}, {probabilities, chosen}, {router});
    b.section(Section::experts, RecomputeModule::moe);
    const Index sent = routed(1, h);
    b.add(dispatch, "dispatch", {y, chosen}, {sent});
    const Index all = x_ > 1 ? routed(x_, h) : sent;
    if (x_ > 1) b.add(gather_rows, "expert gather", {sent}, {all});
    const Index u = routed(x_, up * f), g = routed(x_, f), z = routed(x_, h);
    b.segment();  // only experts: they have other replicas
    const auto kind = gated_ ? TensorKind::expert_gate_up_weight : TensorKind::expert_up_weight;
    const Index up_weight = b.parameter(experts(kind, held * up, f, h)),
                down_weight = b.parameter(experts(TensorKind::expert_down_weight, held * h, f, 1));
    b.add(expert_linear, "experts up", {all}, {u}, {up_weight});
    b.module(RecomputeModule::moe_act);
    b.add(activate, "expert activation", {u}, {g});
    b.module(RecomputeModule::moe);
    b.add(expert_linear, "experts down", {g}, {z}, {down_weight});
    const Index back = x_ > 1 ? routed(1, h) : z;
    if (x_ > 1) b.add(scatter_rows, "expert scatter", {z}, {back});
    const Index combined = b.value(b.at(y).elements, h);
    b.add(combine, "combine", {back, chosen}, {combined});
    Index sum = cuts ? residual(b) : combined;
    if (cuts) b.add(all_rows, "tokens of all", {combined}, {sum});
    if (ffn.shared_width > 0) {
      b.segment();
      b.section(Section::router, RecomputeModule::shared_experts);
      const Index shared = shared_experts(b, normed), both = residual(b);
      b.section(Section::experts, RecomputeModule::moe);
      b.add(skip_add, "add shared", {sum, shared}, {both});
      sum = both;
    }
    b.module({});
    const Index out = residual(b);
    b.add(add, "add", {x, sum}, {out});
    return out;
  }
  Index shared_experts(BlockBuilder& b, Index y) const {
    const std::int64_t h = local_.hidden, f = layer_.ffn.shared_width / t_, up = layer_.ffn.up_projections();
    const List weights{b.parameter(column_parallel(TensorKind::shared_gate_up_weight, up, f * t_, h, t_))};
    const List down{b.parameter(row_parallel(TensorKind::shared_down_weight, h, f * t_, t_))};
    const Index entered = enter(b, y), u = tokens(b, up * f), g = tokens(b, f), z = tokens(b, h);
    b.add(linear, "shared up", {entered}, {u}, weights);
    b.add(activate, "shared activation", {u}, {g});
    b.add(linear, "shared down", {g}, {z}, down);
    return leave(b, z);
  }
  // `outer` times [slice, inner] here; the first dimension is split over the ranks that share an expert.
  Tensor experts(TensorKind kind, std::int64_t outer, std::int64_t slice, std::int64_t inner) const {
    const std::int64_t ranks = options_.shard.expert, each = options_.shard.expert_tensor;
    const Split split = each > 1 ? Split::expert_tensor : Split::none;
    return {kind, 0, 0, outer, slice, inner, slice * each, split, ranks > 1 ? outer * ranks : 0};
  }

  Index add_branch(BlockBuilder& b, Index x, Index z, List parameters) const {
    const Index branch = leave(b, z);
    b.module({});
    const Index sum = residual(b);
    b.add(add, "add", {x, branch}, {sum}, std::move(parameters));
    return sum;
  }

  void logits_and_loss(BlockBuilder& b, Index x, List weight) const {
    const List norms = norm_parameters(b, TensorKind::norm_gain, TensorKind::norm_bias);
    const Index y = residual(b);
    b.add(norm, "final norm", {x}, {y}, norms);
    const Index entered = enter(b, y);
    const Index logits = tokens(b, token_table(TensorKind::head_weight).slice);
    b.add(linear, "head", {entered}, {logits}, std::move(weight));
    b.add(loss, "cross-entropy", {logits}, {});
  }

  const Transformer& model_;
  const LayerSpec& layer_;
  const BlockOptions& options_;
  const std::int64_t t_;
  const LocalShape local_;
  const bool gpt_, gated_;
};

}  // namespace

NetworkBlocks transformer_blocks(const Transformer& model, const LayerTable& table, const BlockOptions& options) {
  const Parts ends(model, table.rows.front().spec, options);
  NetworkBlocks all{.embedding = ends.embedding(), .head = ends.head()};
  for (const auto& row : table.rows) all.layers.push_back(Parts(model, row.spec, options).layer());
  if (model.mtp_layers > 0) all.prediction = Parts(model, table.last(), options).prediction();
  return all;
}

}  // namespace rehearsal::models
