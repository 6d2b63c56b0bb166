// The two ends of the network: embedding (first stage) and output head (last stage). Never recomputed; their kernels
// have no dropout factor (fits: models/README.md). With tied weights both carry the same matrix: whoever puts both on
// one stage counts its parameters once.
#include "models/operators.hpp"
#include "models/shapes.hpp"
#include "models/tensors.hpp"
#include "models/traffic.hpp"

namespace rehearsal::models {
namespace {

Operator plain(std::string_view name, double moved, std::int64_t kernels) {
  return {name, MemoryBound{bytes(moved), kernels, Traffic::plain}};
}

void communicate(std::vector<Operator>& list, const Shard& shard, CollectiveKind kind, std::string_view name,
                 Bytes size) {
  if (shard.tensor > 1) list.push_back({name, TensorCollective{kind, size}});
}

}  // namespace

LayerWork embedding_work(const Transformer& model, const Training& training, const Software& software,
                         const Shard& shard) {
  const LocalShape l = local_shape(model, shard);
  const double tokens = double(l.tokens), h = double(l.hidden), slice = double(vocabulary_slice(model, shard.tensor));
  const Bytes whole(2 * l.tokens * l.hidden);
  LayerWork work;
  // 16 bytes per element in all: look-up 4, positions 6 (or scaling), dropout or cast 2 forward; 4 backward.
  work.forward.push_back(plain("embedding", 12 * tokens * h, 3));
  if (shard.sequence_parallel) {
    communicate(work.forward, shard, CollectiveKind::reduce_scatter, "tensor reduce-scatter", whole);
    communicate(work.input_gradient, shard, CollectiveKind::all_gather, "tensor all-gather", whole);
  } else {
    communicate(work.forward, shard, CollectiveKind::all_reduce, "tensor all-reduce", whole);
  }
  work.input_gradient.push_back(plain("embedding gradient", 4 * tokens * h, 1));
  // The gradient of a look-up is dense here: cleared and written over the whole slice, then added to the buffer.
  const double dense = (4 + accumulation_bytes(training, software, shard)) * slice * h;
  work.weight_gradient.push_back(plain("embedding weights", dense, 2));
  work.parameters = slice * h + (model.family == Family::gpt ? double(model.sequence) * h : 0);
  work.activations = bytes(software.dropout ? l.residual : 0);  // dropout mask, 1 byte
  work.weight_hold = bytes(2 * l.residual);
  work.forward_kernels = 3;
  work.backward_kernels = 3;
  add_embedding_tensors(work, model, shard);
  return work;
}

LayerWork head_work(const Transformer& model, const Training& training, const Software& software, const Shard& shard) {
  const LocalShape l = local_shape(model, shard);
  const std::int64_t slice = vocabulary_slice(model, shard.tensor);
  const double logits = double(l.tokens) * double(slice), h = double(l.hidden);
  const Precision precision = unscaled(training.precision);
  const bool compiled = software.compiled;
  const Bytes whole(2 * l.tokens * l.hidden);
  LayerWork work;
  const ElementCost norm = forward_traffic(model, training, software).norm;
  const ElementCost norm_gradient = backward_traffic(model, training, software).norm;
  work.forward.push_back(plain("final norm", norm.bytes * l.residual, norm.kernels));
  if (shard.sequence_parallel) communicate(work.forward, shard, CollectiveKind::all_gather, "tensor all-gather", whole);
  work.forward.push_back({"head", Gemm{l.tokens, slice, l.hidden, 1, precision, false}});
  // Cast to fp32, maximum, exponentials, sum, loss: 34 bytes per logit eager, 16 in a compiled kernel; backward 14
  // and 10.
  work.forward.push_back(plain("cross-entropy", (compiled ? 16 : 34) * logits, compiled ? 4 : 10));
  work.input_gradient.push_back(plain("cross-entropy gradient", (compiled ? 10 : 14) * logits, compiled ? 4 : 12));
  work.input_gradient.push_back({"head gradient", Gemm{l.tokens, l.hidden, slice, 1, precision, false}});
  communicate(work.input_gradient, shard,
              shard.sequence_parallel ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
              shard.sequence_parallel ? "tensor reduce-scatter" : "tensor all-reduce", whole);
  work.input_gradient.push_back(plain("final norm gradient", norm_gradient.bytes * l.residual, norm_gradient.kernels));
  work.weight_gradient.push_back({"head weights", Gemm{slice, l.hidden, l.tokens, 1, precision, true}});
  const double accumulated = accumulation_bytes(training, software, shard) * double(slice) * h;
  if (accumulated > 0) work.weight_gradient.push_back(plain("gradient accumulation", accumulated, 1));
  work.parameters = double(slice) * h + (model.family == Family::gpt ? 2 : 1) * h;
  work.weight_hold = bytes(2 * l.residual + 2 * logits);
  work.forward_kernels = (compiled ? 5 : 11) + norm.kernels;
  work.backward_kernels = (compiled ? 6 : 14) + norm_gradient.kernels;
  add_head_tensors(work, model, software, shard);
  return work;
}

}  // namespace rehearsal::models
