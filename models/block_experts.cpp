// The half of a layer whose feed-forward networks are experts.
#include <cmath>

#include "models/block_parts.hpp"

namespace rehearsal::models {

using enum OperatorKind;

// x + sum of the chosen experts of norm(x), by weight + the shared experts. The router, dispatch and the experts work
// on the rank's own tokens, even if all ranks of a tensor group hold all of them; shared experts are split over the
// tensor group like any feed-forward layer.
BlockParts::Index BlockParts::experts_half(BlockBuilder& b, Index x) const {
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
  const std::int64_t width = ffn.latent > 0 ? ffn.latent : h;  // that experts see
  Index going = y;
  if (ffn.latent > 0) {
    going = rows_of(b, y, width);
    b.add(linear, "latent in", {y}, {going}, {b.parameter(whole(TensorKind::latent_expert_weight, width, h))});
  }
  const Index sent = routed(1, width);
  b.add(dispatch, "dispatch", {going, chosen}, {sent});
  const Index all = x_ > 1 ? routed(x_, width) : sent;
  if (x_ > 1) b.add(gather_rows, "expert gather", {sent}, {all});
  const Index u = routed(x_, up * f), g = routed(x_, f), z = routed(x_, width);
  b.segment();  // only experts: they have other replicas
  const auto kind = gated_ ? TensorKind::expert_gate_up_weight : TensorKind::expert_up_weight;
  const Index up_weight = b.parameter(experts(kind, held * up, f, width)),
              down_weight = b.parameter(experts(TensorKind::expert_down_weight, held * width, f, 1));
  b.add(expert_linear, "experts up", {all}, {u}, {up_weight});
  b.module(RecomputeModule::moe_act);
  b.add(activate, "expert activation", {u}, {g});
  b.module(RecomputeModule::moe);
  b.add(expert_linear, "experts down", {g}, {z}, {down_weight});
  const Index back = x_ > 1 ? routed(1, width) : z;
  if (x_ > 1) b.add(scatter_rows, "expert scatter", {z}, {back});
  Index combined = rows_of(b, y, width);
  b.add(combine, "combine", {back, chosen}, {combined});
  if (ffn.latent > 0) {
    const Index wide = rows_of(b, y, h);
    b.add(linear, "latent out", {combined}, {wide}, {b.parameter(whole(TensorKind::latent_expert_weight, h, width))});
    combined = wide;
  }
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

BlockParts::Index BlockParts::shared_experts(BlockBuilder& b, Index y) const {
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
Tensor BlockParts::experts(TensorKind kind, std::int64_t outer, std::int64_t slice, std::int64_t inner) const {
  const std::int64_t ranks = options_.shard.expert, each = options_.shard.expert_tensor;
  const Split split = each > 1 ? Split::expert_tensor : Split::none;
  return {kind, 0, 0, outer, slice, inner, slice * each, split, ranks > 1 ? outer * ranks : 0};
}

}  // namespace rehearsal::models
