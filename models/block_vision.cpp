// The blocks of a tower in front of a model, and its counts.
#include "models/vision.hpp"

#include "models/block_parts.hpp"

namespace rehearsal::models {
namespace {

using enum OperatorKind;
using Index = BlockBuilder::Index;
using List = BlockBuilder::List;

double rows_of_pictures(const Vision& v) { return double(v.pictures() * v.picture_tokens); }

// Entries of the matrices of one projector.
double projector_matrices(const Vision& v, double hidden) {
  const double in = double(v.merged()), inner = double(v.projected());
  return v.projector == Vision::Projector::mlp ? in * inner + inner * hidden : in * hidden;
}

class TowerParts {
 public:
  TowerParts(const Vision& vision, std::int64_t hidden, const BlockOptions& options)
      : vision_(vision),
        hidden_(hidden),
        t_(options.shard.tensor),
        patches_(options.shard.tokens()),
        biases_(vision.family == Family::gpt) {}

  Block front() const {
    const std::int64_t h = vision_.hidden;
    BlockBuilder b;
    b.segment();
    b.section(Section::feed_forward);
    List weights{b.parameter(whole(TensorKind::up_weight, h, vision_.patch))};
    if (biases_) weights.push_back(b.parameter(whole(TensorKind::up_bias, h)));
    const Index patches = b.value(patches_ * vision_.patch, vision_.patch), x = b.value(patches_ * h, h);
    b.add(load_rows, "patches", {}, {patches});
    b.add(linear, "patch embedding", {patches}, {x}, weights);
    if (vision_.positions > 0)
      b.add(add_positions, "positions", {x}, {x},
            {b.parameter(whole(TensorKind::position_table, vision_.positions, h))});
    return b.finish(std::nullopt, x);
  }

  // Of several projectors each reads the last layer here; those of layers in between are as large.
  Block projectors() const {
    BlockBuilder b;
    b.segment();
    b.section(Section::feed_forward);
    const Index x = b.value(patches_ * vision_.hidden, vision_.hidden);
    Index rows = projector(b, x);
    for (std::int64_t i = 0; i < vision_.deepstack; ++i) {
      const Index more = projector(b, x), sum = result(b);
      b.add(skip_add, "skip", {rows, more}, {sum});
      rows = sum;
    }
    return b.finish(x, rows);
  }

 private:
  Index result(BlockBuilder& b) const { return b.value(patches_ / vision_.merge * hidden_, hidden_); }

  Index projector(BlockBuilder& b, Index x) const {
    const std::int64_t rows = patches_ / vision_.merge, in = vision_.merged(), inner = vision_.projected();
    List norms{b.parameter(whole(TensorKind::norm_gain, vision_.hidden))};
    if (biases_) norms.push_back(b.parameter(whole(TensorKind::norm_bias, vision_.hidden)));
    const Index y = b.value(rows * in, in), z = result(b);
    b.add(norm, "norm", {x}, {y}, norms);
    if (vision_.projector == Vision::Projector::linear) {
      b.add(linear, "mlp down", {y}, {z}, {b.parameter(whole(TensorKind::down_weight, hidden_, in))});
      return z;
    }
    List up{b.parameter(column_parallel(TensorKind::up_weight, 1, inner, in, t_))};
    List down{b.parameter(row_parallel(TensorKind::down_weight, hidden_, inner, t_))};
    if (biases_) {
      up.push_back(b.parameter(column_parallel(TensorKind::up_bias, 1, inner, 1, t_)));
      down.push_back(b.parameter(whole(TensorKind::down_bias, hidden_)));
    }
    const Index u = b.value(rows * inner / t_, inner / t_), g = b.value(rows * inner / t_, inner / t_);
    if (t_ > 1) b.add(tp_scatter_in, "enter", {y}, {y});
    b.add(linear, "mlp up", {y}, {u}, up);
    b.add(activate, "activation", {u}, {g});
    b.add(linear, "mlp down", {g}, {z}, down);
    if (t_ > 1) b.add(tp_reduce_out, "leave", {z}, {z});
    return z;
  }

  const Vision& vision_;
  const std::int64_t hidden_, t_, patches_;
  const bool biases_;
};

}  // namespace

Transformer tower(const Vision& v) {
  Transformer m;
  m.family = v.family, m.layers = v.layers, m.hidden = v.hidden, m.heads = m.kv_heads = v.heads;
  m.head_dim = v.head_dim, m.ffn = v.ffn, m.ffn_kind = v.ffn_kind, m.mixing.qk_norm = v.qk_norm;
  return m;
}

Shard tower_shard(const Vision& vision, const Shard& shard) {
  Shard own;
  own.tensor = shard.tensor, own.microbatches = shard.microbatches;
  own.updates_in_backward = shard.updates_in_backward;
  own.micro_batch = (shard.micro_batch * vision.pictures() + shard.context - 1) / shard.context;
  own.sequence = vision.patches();
  return own;
}

TowerBlocks tower_blocks(const Vision& vision, std::int64_t hidden, const BlockOptions& options) {
  const auto model = tower(vision);
  const auto layer = layer_table(model).last();
  const TowerParts parts(vision, hidden, options);
  TowerBlocks blocks{parts.front(), BlockParts(model, layer, options).layer(), parts.projectors()};
  for (auto* block : {&blocks.front, &blocks.layer, &blocks.projector}) block->layer = layer;
  // Its activation is a GELU whatever the layers have.
  blocks.projector.layer.ffn.kind = FfnKind::gelu;
  return blocks;
}

double tower_parameters(const Transformer& model) {
  if (!model.vision) return 0;
  const auto& v = *model.vision;
  const double h = double(v.hidden), out = double(model.hidden), biases = v.family == Family::gpt ? 1 : 0;
  const double front = h * double(v.patch + v.positions) + biases * h;
  const double vectors =
      (1 + biases) * h + (v.projector == Vision::Projector::mlp ? biases * (double(v.projected()) + out) : 0);
  return front + parameters_of_layers(tower(v)) + double(1 + v.deepstack) * (projector_matrices(v, out) + vectors);
}

TowerFlops tower_flops(const Transformer& model) {
  if (!model.vision) return {};
  const auto& v = *model.vision;
  const auto layers = tower(v);
  const auto layer = layer_table(layers).last();
  const double rows = rows_of_pictures(v), patches = rows * double(v.merge);
  const double each = mixer_matrices(v.hidden, layer.mixer) + ffn_matrices(v.hidden, layer.ffn, Experts::all);
  return {2 * patches * double(v.layers) * each +
              2 * rows * double(1 + v.deepstack) * projector_matrices(v, double(model.hidden)),
          2 * patches * double(v.patch * v.hidden),
          double(v.layers * v.pictures()) * mixing_flops(layer.mixer, v.patches())};
}

}  // namespace rehearsal::models
