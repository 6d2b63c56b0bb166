// y = W2 gelu(W1 x + b1) + b2 per layer, no residual; squared error against given targets.
#include "models/network_builder.hpp"

namespace rehearsal::models {

Network mlp_network(const Transformer& model, const NetworkShape& shape) {
  using enum KernelKind;
  using B = PartBuilder;
  const std::int64_t T = shape.shard.tokens(), h = model.hidden, t = shape.shard.tensor, f = model.ffn / t;
  const std::int64_t total = T * shape.shard.microbatches * shape.data;
  Network network;
  network.precision = shape.precision;
  {
    B b(shape.precision);
    const auto x = b.value(T * h);
    B::add(b.forward(), load_rows, {T, h}, {B::write(x)});
    b.part().output = x;
    network.embedding = b.finish();
  }
  {
    B b(shape.precision);
    b.segment();
    const auto w1 = b.parameter(column_parallel(TensorKind::up_weight, 1, model.ffn, h, t));
    const auto b1 = b.parameter(column_parallel(TensorKind::up_bias, 1, model.ffn, 1, t));
    const auto w2 = b.parameter(row_parallel(TensorKind::down_weight, h, model.ffn, t));
    const auto b2 = b.parameter(whole(TensorKind::down_bias, h));
    const auto x = b.value(T * h), u = b.value(T * f), g = b.value(T * f), y = b.value(T * h);
    const auto dy = b.value(T * h), du = b.value(T * f), dx = b.value(T * h);
    auto& F = b.forward();
    B::add(F, linear, {T, f, h}, {B::read(x), B::weight(w1), B::write(u)});
    B::add(F, add_bias, {T, f, std::int64_t(Bias::whole)}, {B::weight(b1), B::write(u)});
    B::add(F, gelu, {T * f}, {B::read(u), B::write(g)});
    B::add(F, linear, {T, h, f}, {B::read(g), B::weight(w2), B::write(y)});
    if (t > 1) B::all_reduce(F, y);
    B::add(F, add_bias, {T, h, std::int64_t(Bias::whole)}, {B::weight(b2), B::write(y)});
    auto& I = b.input_gradient();
    B::add(I, bias_gradient, {T, h, std::int64_t(Bias::whole)}, {B::read(dy), B::gradient(b2)});
    B::add(I, linear_input_gradient, {T, h, f}, {B::read(dy), B::weight(w2), B::write(du)});
    B::add(I, gelu_gradient, {T * f}, {B::read(u), B::write(du)});
    B::add(I, bias_gradient, {T, f, std::int64_t(Bias::whole)}, {B::read(du), B::gradient(b1)});
    B::add(I, linear_input_gradient, {T, f, h}, {B::read(du), B::weight(w1), B::write(dx)});
    if (t > 1) B::all_reduce(I, dx);
    auto& W = b.weight_gradient();
    B::add(W, linear_weight_gradient, {T, h, f}, {B::read(dy), B::read(g), B::gradient(w2)});
    B::add(W, linear_weight_gradient, {T, f, h}, {B::read(du), B::read(x), B::gradient(w1)});
    b.part().input = x, b.part().output = y, b.part().output_gradient = dy, b.part().input_gradient = dx;
    network.layer = b.finish();
  }
  {
    B b(shape.precision);
    const auto y = b.value(T * h), dy = b.value(T * h);
    B::add(b.forward(), squared_error, {T, h, total}, {B::read(y), B::loss()});
    B::add(b.input_gradient(), squared_error_gradient, {T, h, total}, {B::read(y), B::write(dy)});
    b.part().input = y, b.part().input_gradient = dy;
    network.head = b.finish();
  }
  return network;
}

}  // namespace rehearsal::models
