// GPT-2's pre-norm block (Radford et al. 2019, section 2.3) in the tensor-parallel form of Megatron-LM (1909.08053):
// the first linear layer of each half is cut along its outputs, the second along its inputs, an all-reduce ends each
// half and begins each gradient's way back. Keys have no bias: softmax does not see it, its gradient is rounding noise,
// and Adam would make weights of that.
#include <algorithm>

#include "models/network_builder.hpp"

namespace rehearsal::models {
namespace {

using enum KernelKind;
using B = PartBuilder;

constexpr auto kWhole = std::int64_t(Bias::whole), kQueryValue = std::int64_t(Bias::query_value);

struct Sizes {
  std::int64_t T, s, b, h, t, heads, d, f, slice, vocabulary, total;
  bool causal;
  Precision precision;
};

// Vocabulary-parallel token table; positions are the same on every tensor rank and added after the sum.
NetworkPart embedding(const Transformer& model, const Sizes& z) {
  B b(z.precision);
  b.segment(model.tie_embeddings);
  const Tensor table{
      TensorKind::token_table, 0, 0, 1, z.slice, z.h, z.vocabulary, z.t > 1 ? Split::tensor : Split::none};
  const auto tokens = b.parameter(table);
  b.segment();
  const auto positions = b.parameter(whole(TensorKind::position_table, z.s, z.h));
  const auto x = b.value(z.T * z.h), dx = b.value(z.T * z.h);
  B::add(b.forward(), embed, {z.T, z.h, z.slice}, {B::weight(tokens), B::write(x)});
  if (z.t > 1) B::all_reduce(b.forward(), x);
  B::add(b.forward(), add_positions, {z.T, z.h, z.s}, {B::weight(positions), B::write(x)});
  B::add(b.weight_gradient(), positions_gradient, {z.T, z.h, z.s}, {B::read(dx), B::gradient(positions)});
  B::add(b.weight_gradient(), embed_gradient, {z.T, z.h, z.slice}, {B::read(dx), B::gradient(tokens)});
  b.part().output = x, b.part().output_gradient = dx;
  return b.finish();
}

NetworkPart layer(const Sizes& z) {
  const auto [T, s, seqs, h, t, heads, d, f, slice, vocabulary, total, causal, precision] = z;
  const std::int64_t local = heads * d, all_heads = local * t;
  B b(precision);
  b.segment();
  const auto gain1 = b.parameter(whole(TensorKind::norm1_gain, h)),
             bias1 = b.parameter(whole(TensorKind::norm1_bias, h));
  const auto qkv_w = b.parameter(column_parallel(TensorKind::qkv_weight, 3, all_heads, h, t));
  const auto qv_b = b.parameter(column_parallel(TensorKind::qv_bias, 2, all_heads, 1, t));
  const auto out_w = b.parameter(row_parallel(TensorKind::out_weight, h, all_heads, t));
  const auto out_b = b.parameter(whole(TensorKind::out_bias, h));
  const auto gain2 = b.parameter(whole(TensorKind::norm2_gain, h)),
             bias2 = b.parameter(whole(TensorKind::norm2_bias, h));
  const auto up_w = b.parameter(column_parallel(TensorKind::up_weight, 1, f * t, h, t));
  const auto up_b = b.parameter(column_parallel(TensorKind::up_bias, 1, f * t, 1, t));
  const auto down_w = b.parameter(row_parallel(TensorKind::down_weight, h, f * t, t));
  const auto down_b = b.parameter(whole(TensorKind::down_bias, h));

  const auto x = b.value(T * h), y1 = b.value(T * h), stats1 = b.value(2 * T), qkv = b.value(3 * T * local);
  const auto out = b.value(T * local), lse = b.value(T * heads), x2 = b.value(T * h), y2 = b.value(T * h);
  const auto stats2 = b.value(2 * T), u = b.value(T * f), g = b.value(T * f), x3 = b.value(T * h);
  auto& F = b.forward();
  B::add(F, layer_norm, {T, h}, {B::read(x), B::weight(gain1), B::weight(bias1), B::write(y1), B::write(stats1)});
  B::add(F, linear, {T, 3 * local, h}, {B::read(y1), B::weight(qkv_w), B::write(qkv)});
  B::add(F, add_bias, {T, 3 * local, kQueryValue}, {B::weight(qv_b), B::write(qkv)});
  B::add(F, attention, {seqs, heads, s, d, causal}, {B::read(qkv), B::write(out), B::write(lse)}).selective = true;
  B::add(F, linear, {T, h, local}, {B::read(out), B::weight(out_w), B::write(x2)});
  if (t > 1) B::all_reduce(F, x2);
  B::add(F, add_residual, {T, h}, {B::read(x), B::weight(out_b), B::write(x2)});
  B::add(F, layer_norm, {T, h}, {B::read(x2), B::weight(gain2), B::weight(bias2), B::write(y2), B::write(stats2)});
  B::add(F, linear, {T, f, h}, {B::read(y2), B::weight(up_w), B::write(u)});
  B::add(F, add_bias, {T, f, kWhole}, {B::weight(up_b), B::write(u)});
  B::add(F, gelu, {T * f}, {B::read(u), B::write(g)});
  B::add(F, linear, {T, h, f}, {B::read(g), B::weight(down_w), B::write(x3)});
  if (t > 1) B::all_reduce(F, x3);
  B::add(F, add_residual, {T, h}, {B::read(x2), B::weight(down_b), B::write(x3)});

  // dx3 arrives; d2 is the gradient of x2, d1 that of x.
  const auto dx3 = b.value(T * h), du = b.value(T * f), d2 = b.value(T * h), dout = b.value(T * local);
  const auto dqkv = b.value(3 * T * local), d1 = b.value(T * h);
  auto& I = b.input_gradient();
  B::add(I, bias_gradient, {T, h, kWhole}, {B::read(dx3), B::gradient(down_b)});
  B::add(I, linear_input_gradient, {T, h, f}, {B::read(dx3), B::weight(down_w), B::write(du)});
  B::add(I, gelu_gradient, {T * f}, {B::read(u), B::write(du)});
  B::add(I, bias_gradient, {T, f, kWhole}, {B::read(du), B::gradient(up_b)});
  B::add(I, linear_input_gradient, {T, f, h}, {B::read(du), B::weight(up_w), B::write(d2)});
  if (t > 1) B::all_reduce(I, d2);
  B::add(I, layer_norm_gradient, {T, h},
         {B::read(x2), B::read(stats2), B::weight(gain2), B::gradient(gain2), B::gradient(bias2), B::write(d2)});
  B::add(I, add, {T * h}, {B::read(dx3), B::write(d2)});
  B::add(I, bias_gradient, {T, h, kWhole}, {B::read(d2), B::gradient(out_b)});
  B::add(I, linear_input_gradient, {T, h, local}, {B::read(d2), B::weight(out_w), B::write(dout)});
  B::add(I, attention_gradient, {seqs, heads, s, d, causal},
         {B::read(qkv), B::read(out), B::read(lse), B::read(dout), B::write(dqkv)});
  B::add(I, bias_gradient, {T, 3 * local, kQueryValue}, {B::read(dqkv), B::gradient(qv_b)});
  B::add(I, linear_input_gradient, {T, 3 * local, h}, {B::read(dqkv), B::weight(qkv_w), B::write(d1)});
  if (t > 1) B::all_reduce(I, d1);
  B::add(I, layer_norm_gradient, {T, h},
         {B::read(x), B::read(stats1), B::weight(gain1), B::gradient(gain1), B::gradient(bias1), B::write(d1)});
  B::add(I, add, {T * h}, {B::read(d2), B::write(d1)});

  auto& W = b.weight_gradient();
  B::add(W, linear_weight_gradient, {T, h, f}, {B::read(dx3), B::read(g), B::gradient(down_w)});
  B::add(W, linear_weight_gradient, {T, f, h}, {B::read(du), B::read(y2), B::gradient(up_w)});
  B::add(W, linear_weight_gradient, {T, h, local}, {B::read(d2), B::read(out), B::gradient(out_w)});
  B::add(W, linear_weight_gradient, {T, 3 * local, h}, {B::read(dqkv), B::read(y1), B::gradient(qkv_w)});
  b.part().input = x, b.part().output = x3, b.part().output_gradient = dx3, b.part().input_gradient = d1;
  return b.finish();
}

// Final norm, logits over the sharded vocabulary, cross-entropy from per-slice maxima and sums (one small all-gather
// where Megatron-LM has three all-reduces).
NetworkPart head(const Transformer& model, const Sizes& z) {
  const std::int64_t T = z.T, h = z.h;
  B b(z.precision);
  b.segment(model.tie_embeddings);
  const Tensor table{model.tie_embeddings ? TensorKind::token_table : TensorKind::head_weight,
                     0,
                     0,
                     1,
                     z.slice,
                     h,
                     z.vocabulary,
                     z.t > 1 ? Split::tensor : Split::none};
  const auto weight = b.parameter(table);
  b.segment();
  const auto gain = b.parameter(whole(TensorKind::norm_gain, h)), bias = b.parameter(whole(TensorKind::norm_bias, h));
  const auto x = b.value(T * h), y = b.value(T * h), stats = b.value(2 * T), logits = b.value(T * z.slice);
  const auto parts = b.value(3 * T * z.t), lse = b.value(T), dx = b.value(T * h);
  auto& F = b.forward();
  B::add(F, layer_norm, {T, h}, {B::read(x), B::weight(gain), B::weight(bias), B::write(y), B::write(stats)});
  B::add(F, linear, {T, z.slice, h}, {B::read(y), B::weight(weight), B::write(logits)});
  B::add(F, cross_entropy_local, {T, z.slice, z.vocabulary, z.t}, {B::read(logits), B::write(parts)});
  if (z.t > 1) B::all_gather(F, parts);
  B::add(F, cross_entropy, {T, z.slice, z.vocabulary, z.t, z.total}, {B::read(parts), B::write(lse), B::loss()});
  auto& I = b.input_gradient();
  B::add(I, cross_entropy_gradient, {T, z.slice, z.vocabulary, z.total}, {B::read(lse), B::write(logits)});
  B::add(I, linear_input_gradient, {T, z.slice, h}, {B::read(logits), B::weight(weight), B::write(dx)});
  if (z.t > 1) B::all_reduce(I, dx);
  B::add(I, layer_norm_gradient, {T, h},
         {B::read(x), B::read(stats), B::weight(gain), B::gradient(gain), B::gradient(bias), B::write(dx)});
  B::add(b.weight_gradient(), linear_weight_gradient, {T, z.slice, h},
         {B::read(logits), B::read(y), B::gradient(weight)});
  b.part().input = x, b.part().input_gradient = dx;
  return b.finish();
}

}  // namespace

Network gpt_network(const Transformer& model, const NetworkShape& shape) {
  const auto& shard = shape.shard;
  const std::int64_t T = shard.tokens(), t = shard.tensor;
  const Sizes sizes{T,
                    shard.sequence,
                    shard.micro_batch,
                    model.hidden,
                    t,
                    model.heads / t,
                    model.head_dim,
                    model.ffn / t,
                    shape.pad_vocabulary ? vocabulary_slice(model, t) : model.vocabulary,
                    model.vocabulary,
                    T * shard.microbatches * shape.data,
                    shape.causal,
                    shape.precision};
  return {embedding(model, sizes), layer(sizes), head(model, sizes), shape.precision};
}

}  // namespace rehearsal::models
