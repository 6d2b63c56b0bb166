// The half of a layer in which tokens see each other.
#include <algorithm>

#include "models/block_parts.hpp"
#include "models/recurrent.hpp"

namespace rehearsal::models {

using enum OperatorKind;

BlockParts::Index BlockParts::mixer_half(BlockBuilder& b, Index x) const {
  if (layer_.mixer.kind == MixerKind::none) return x;
  if (!layer_.mixer.recurrent()) return attention_half(b, x);
  return options_.separate_mixer ? state_space_half(b, x) : recurrent_half(b, x);
}

// x + attention(norm(x))
BlockParts::Index BlockParts::attention_half(BlockBuilder& b, Index x) const {
  const auto& mixer = layer_.mixer;
  b.section(Section::attention, RecomputeModule::layernorm);
  const List norm1 = norm_parameters(b, TensorKind::norm1_gain, TensorKind::norm1_bias);
  const List weights = mixer.mla ? List{} : attention_inputs(b);
  const std::int64_t width = local_.heads * mixer.value_dim();
  const List out_parameters{b.parameter(row_parallel(TensorKind::out_weight, local_.hidden, width * t_, t_))};
  List branch;
  if (gpt_) branch.push_back(b.parameter(whole(TensorKind::out_bias, local_.hidden)));

  const Index y = residual(b);
  b.add(norm, "norm", {x}, {y}, norm1);
  b.module({});
  const Index entered = mixer.mla ? y : enter(b, y);
  List seen = mixer.mla ? latent_heads(b, y) : heads(b, entered, weights);
  if (mixer.sparse > 0 && !mixer.mla) seen.push_back(chosen_keys(b, y, y));
  b.module(RecomputeModule::core_attn);
  Index out = tokens(b, width);
  List sinks;
  if (mixer.sinks) sinks.push_back(b.parameter(column_parallel(TensorKind::sinks, 1, local_.heads * t_, 1, t_)));
  b.add(attention, "attention", seen, {out}, std::move(sinks));
  b.module({});
  if (mixer.gate) out = gated(b, mixer.mla ? enter(b, y) : entered, out);
  const Index z = tokens(b, local_.hidden);
  b.add(linear, "attention out", {out}, {z}, out_parameters);
  return add_branch(b, x, z, std::move(branch));
}

// Queries, keys and values. Normed queries and keys are values of their own; the product that made them stays, because
// the values are a part of it.
BlockParts::List BlockParts::heads(BlockBuilder& b, Index entered, const List& weights) const {
  const auto normed = [&](const List& made) {
    if (!layer_.mixer.qk_norm) return made;
    const Index both = tokens(b, local_.query + local_.keys);
    b.add(head_norm, "query and key norm", made, {both},
          {b.parameter(whole(TensorKind::head_gain, 2, local_.head_dim))});
    return List{both, made.back()};
  };
  List made;
  if (options_.separate_projections)
    made = {tokens(b, local_.query), tokens(b, local_.keys)};
  else
    made = {tokens(b, local_.qkv)};
  if (options_.separate_projections && !layer_.mixer.keys_as_values) made.push_back(tokens(b, local_.values));
  b.add(linear, "qkv", {entered}, made, weights);
  made = normed(made);
  b.add(rotate, gpt_ ? "transpose" : "rope", made, made);  // only rotated ones are kept
  return made;
}

// DeepSeek-V3.2 (2512.02556, section 2.1): an indexer of few, narrow heads with one key scores all earlier tokens; a
// query sees those with the highest scores. Its queries are made of what the attention's are made of.
BlockParts::Index BlockParts::chosen_keys(BlockBuilder& b, Index y, Index queries_of) const {
  const auto& mixer = layer_.mixer;
  const auto product = [&](std::string_view name, TensorKind kind, Index from, std::int64_t columns) {
    const Index made = rows_of(b, from, columns);
    b.add(linear, name, {from}, {made}, {b.parameter(whole(kind, columns, b.at(from).columns))});
    return made;
  };
  const Index queries =
      product("index query", TensorKind::index_weight, queries_of, mixer.index_heads * mixer.index_dim);
  const Index key = product("index key", TensorKind::index_weight, y, mixer.index_dim + mixer.index_heads);
  const Index chosen = rows_of(b, y, mixer.sparse);
  b.add(index, "index", {queries, key}, {chosen}, {b.parameter(whole(TensorKind::head_gain, 2, mixer.index_dim))});
  return chosen;
}

// Qwen3-Next: a gate for every column of the results, from the layer's input.
BlockParts::Index BlockParts::gated(BlockBuilder& b, Index entered, Index x) const {
  const std::int64_t columns = b.at(x).columns;
  const Index made = tokens(b, columns), y = tokens(b, columns);
  const auto weight = column_parallel(TensorKind::output_gate_weight, 1, columns * t_, local_.hidden, t_);
  b.add(linear, "output gate", {entered}, {made}, {b.parameter(weight)});
  b.add(gate, "gate", {x, made}, {y});
  return y;
}

// x + recurrence(norm(x)): one product into queries, keys, values, a gate and a few scalars of each head; a short
// convolution; the scan; the norm of its result, gated; one product out of it.
BlockParts::Index BlockParts::recurrent_half(BlockBuilder& b, Index x) const {
  const auto& mixer = layer_.mixer;
  const auto has = recurrence(mixer.kind);
  const std::int64_t h = local_.hidden, values = mixer.values() / t_, mixed = 2 * mixer.keys() / t_ + values;
  const std::int64_t heads = std::max<std::int64_t>(1, mixer.heads / t_), scalars = has.scalars * heads;
  b.section(Section::attention, RecomputeModule::layernorm);
  const List norm1 = norm_parameters(b, TensorKind::norm1_gain, TensorKind::norm1_bias);
  const std::int64_t columns = mixed + values + scalars;
  const Index in_weight = b.parameter(column_parallel(TensorKind::mixer_in_weight, 1, columns * t_, h, t_));
  const Index out_weight = b.parameter(row_parallel(TensorKind::out_weight, h, values * t_, t_));
  const Index y = residual(b);
  b.add(norm, "norm", {x}, {y}, norm1);
  b.module({});
  const Index entered = enter(b, y), made = tokens(b, mixed), z = tokens(b, values);
  List projected{made, z}, seen{made};
  if (scalars > 0) projected.push_back(tokens(b, scalars));
  b.add(linear, "mixer in", {entered}, projected, {in_weight});
  b.module(RecomputeModule::core_attn);
  if (mixer.convolution > 0) {
    seen = {tokens(b, mixed)};
    const auto taps = mixer.convolution + has.convolution_bias;
    b.add(convolve, "short convolution", {made}, seen, {b.parameter(whole(TensorKind::convolution, taps, mixed))});
  }
  if (scalars > 0) seen.push_back(projected.back());
  List of_heads;
  if (has.vectors > 0) of_heads.push_back(b.parameter(whole(TensorKind::head_scalars, has.vectors, heads)));
  const Index scanned = tokens(b, values);
  b.add(scan, "scan", seen, {scanned}, std::move(of_heads));
  b.module({});
  const Index out = tokens(b, values);
  const auto gain = has.norm_per_head ? mixer.value_dim() : values;
  b.add(gate, "gated norm", {scanned, z}, {out}, {b.parameter(whole(TensorKind::head_gain, gain))});
  const Index sum = tokens(b, h);
  b.add(linear, "mixer out", {out}, {sum}, {out_weight});
  return add_branch(b, x, sum, {});
}

// Mamba-2 with a tensor for each part: a row of what is convolved holds [values | keys (B) | queries (C)].
BlockParts::Index BlockParts::state_space_half(BlockBuilder& b, Index x) const {
  const auto& mixer = layer_.mixer;
  const std::int64_t h = local_.hidden, keys = mixer.keys(), values = mixer.values(), taps = mixer.convolution + 1;
  const auto cut = [&](TensorKind kind, std::int64_t outer, std::int64_t columns, std::int64_t inner) {
    return b.parameter(column_parallel(kind, outer, columns, inner, t_));
  };
  b.section(Section::attention, RecomputeModule::layernorm);
  const List norm1 = norm_parameters(b, TensorKind::norm1_gain, TensorKind::norm1_bias);
  const List into{cut(TensorKind::mixer_value_weight, 1, values, h), cut(TensorKind::mixer_state_weight, 2, keys, h)};
  const Index gate_weight = cut(TensorKind::mixer_gate_weight, 1, values, h);
  const Index step_weight = cut(TensorKind::mixer_step_weight, 1, mixer.heads, h);
  const List convolution{cut(TensorKind::value_convolution, 1, values, taps),
                         cut(TensorKind::state_convolution, 2, keys, taps)};
  const Index of_heads = cut(TensorKind::head_scalars, recurrence(mixer.kind).vectors, mixer.heads, 1);
  const Index gain = cut(TensorKind::head_gain, 1, values, 1);
  const Index out_weight = b.parameter(row_parallel(TensorKind::out_weight, h, values, t_));
  const Index y = residual(b);
  b.add(norm, "norm", {x}, {y}, norm1);
  b.module({});
  const Index entered = enter(b, y), made = tokens(b, (values + 2 * keys) / t_),
              convolved = tokens(b, b.at(made).columns);
  const Index z = tokens(b, values / t_), steps = tokens(b, mixer.heads / t_);
  b.add(linear, "mixer in", {entered}, {made}, into);
  b.add(linear, "mixer gate", {entered}, {z}, {gate_weight});
  b.add(linear, "mixer steps", {entered}, {steps}, {step_weight});
  b.module(RecomputeModule::core_attn);
  const Index scanned = tokens(b, values / t_);
  b.add(convolve, "short convolution", {made}, {convolved}, convolution);
  b.add(scan, "scan", {convolved, steps}, {scanned}, {of_heads});
  b.module({});
  const Index out = tokens(b, values / t_), sum = tokens(b, h);
  b.add(gate, "gated norm", {scanned, z}, {out}, {gain});
  b.add(linear, "mixer out", {out}, {sum}, {out_weight});
  return add_branch(b, x, sum, {});
}

// DeepSeek-V2 (2405.04434), section 2.1: queries and the latent of keys and values are made of the rank's own tokens;
// heads are made of these, and joined with the columns that carry the position.
BlockParts::List BlockParts::latent_heads(BlockBuilder& b, Index y) const {
  const auto& m = *layer_.mixer.mla;
  const std::int64_t a = local_.heads, q = a * layer_.mixer.score_dim(), kv = a * (m.head_dim + m.value_dim);
  const auto narrow = [&](std::string_view name, TensorKind kind, std::int64_t columns) {
    const Index made = rows_of(b, y, columns);
    b.add(linear, name, {y}, {made}, {b.parameter(whole(kind, columns, local_.hidden))});
    return made;
  };
  const auto widen = [&](std::string_view name, TensorKind kind, Index from, std::int64_t rank, std::int64_t columns) {
    const Index normed = rows_of(b, from, rank), made = tokens(b, columns);
    b.add(norm, "latent norm", {from}, {normed}, {b.parameter(whole(TensorKind::latent_gain, rank))});
    const Index entered = scattered() ? tokens(b, rank) : normed;
    if (t_ > 1) b.add(OperatorKind::tp_scatter_in, "enter", {normed}, {entered});
    b.add(linear, name, {entered}, {made}, {b.parameter(column_parallel(kind, 1, columns * t_, rank, t_))});
    return made;
  };
  Index queries;
  std::optional<Index> chosen;
  const Index latent = narrow("latent down", TensorKind::latent_down_weight, m.kv_rank + m.rotary_dim);
  if (m.query_rank > 0) {
    const Index down = narrow("query down", TensorKind::query_down_weight, m.query_rank);
    if (layer_.mixer.sparse > 0) chosen = chosen_keys(b, y, down);
    b.module(RecomputeModule::mla_up_proj);
    queries = widen("query up", TensorKind::query_up_weight, down, m.query_rank, q);
  } else {
    if (layer_.mixer.sparse > 0) chosen = chosen_keys(b, y, y);
    queries = tokens(b, q);
    b.add(linear, "query up", {enter(b, y)}, {queries},
          {b.parameter(column_parallel(TensorKind::query_up_weight, 1, q * t_, local_.hidden, t_))});
    b.module(RecomputeModule::mla_up_proj);
  }
  const Index keys = widen("latent up", TensorKind::latent_up_weight, latent, m.kv_rank, kv);
  List seen{tokens(b, q), tokens(b, q), tokens(b, a * m.value_dim)};
  b.add(rotate, "rope", {queries, keys}, seen);
  b.module({});
  if (chosen) seen.push_back(*chosen);
  return seen;
}

// One matrix [3, heads x d, h] if there are as many keys as queries, else three; GPT has biases.
BlockParts::List BlockParts::attention_inputs(BlockBuilder& b) const {
  const std::int64_t h = local_.hidden, query = local_.query * t_;
  const bool values = !layer_.mixer.keys_as_values;
  if (local_.keys == local_.query && local_.values == local_.query && values) {
    List list{b.parameter(column_parallel(TensorKind::qkv_weight, 3, query, h, t_))};
    if (gpt_) list.push_back(b.parameter(column_parallel(TensorKind::qkv_bias, 3, query, 1, t_)));
    return list;
  }
  List list{b.parameter(column_parallel(TensorKind::query_weight, 1, query, h, t_)),
            b.parameter(column_parallel(TensorKind::key_weight, 1, local_.keys * t_, h, t_))};
  if (values) list.push_back(b.parameter(column_parallel(TensorKind::value_weight, 1, local_.values * t_, h, t_)));
  if (gpt_) list.push_back(b.parameter(column_parallel(TensorKind::qkv_bias, 1, local_.qkv * t_, 1, t_)));
  return list;
}

}  // namespace rehearsal::models
