#include "models/block.hpp"

#include "base/error.hpp"
#include "models/block_builder.hpp"

namespace rehearsal::models {

const Tensor& Block::tensor(std::uint16_t parameter) const {
  std::size_t first = 0;
  for (const auto& segment : segments) {
    if (parameter < first + segment.tensors.size()) return segment.tensors[parameter - first];
    first += segment.tensors.size();
  }
  INVARIANT(false, "no such tensor");
  return segments.front().tensors.front();
}

NetworkBlocks blocks(const Transformer& model, const BlockOptions& options) {
  auto table = layer_table(model);
  auto network = model.family == Family::mlp ? mlp_blocks(model, options) : transformer_blocks(model, table, options);
  network.table = std::move(table);
  for (auto* block : {&network.embedding, &network.head}) block->layer = network.table.rows.front().spec;
  for (std::size_t i = 0; i < network.layers.size(); ++i) network.layers[i].layer = network.table.rows[i].spec;
  network.prediction.layer = network.body.layer = network.table.last();
  return network;
}

// y = W2 gelu(W1 x + b1) + b2 per layer, no residual; squared error against given targets.
NetworkBlocks mlp_blocks(const Transformer& model, const BlockOptions& options) {
  using enum OperatorKind;
  const std::int64_t t = options.shard.tensor, rows = options.shard.tokens(), h = model.hidden, f = model.ffn / t;
  NetworkBlocks network;
  {
    BlockBuilder b;
    const auto x = b.value(rows * h, h);
    b.add(load_rows, "rows", {}, {x});
    network.embedding = b.finish(std::nullopt, x);
  }
  {
    BlockBuilder b;
    b.segment();
    const auto w1 = b.parameter(column_parallel(TensorKind::up_weight, 1, model.ffn, h, t));
    const auto b1 = b.parameter(column_parallel(TensorKind::up_bias, 1, model.ffn, 1, t));
    const auto w2 = b.parameter(row_parallel(TensorKind::down_weight, h, model.ffn, t));
    const auto b2 = b.parameter(whole(TensorKind::down_bias, h));
    const auto x = b.value(rows * h, h), u = b.value(rows * f, f), g = b.value(rows * f, f), y = b.value(rows * h, h);
    if (t > 1) b.add(tp_scatter_in, "enter", {x}, {x});
    b.add(linear, "mlp up", {x}, {u}, {w1, b1});
    b.add(activate, "activation", {u}, {g});
    b.add(linear, "mlp down", {g}, {y}, {w2});
    if (t > 1) b.add(tp_reduce_out, "leave", {y}, {y});
    b.add(add_bias, "bias", {y}, {y}, {b2});
    network.layers.push_back(b.finish(x, y));
  }
  {
    BlockBuilder b;
    const auto y = b.value(rows * h, h);
    b.add(squared_error, "squared error", {y}, {});
    network.head = b.finish(y, std::nullopt);
  }
  return network;
}

}  // namespace rehearsal::models
