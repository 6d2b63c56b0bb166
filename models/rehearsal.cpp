#include "models/rehearsal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "models/lives.hpp"
#include "models/rehearsal_rewrite.hpp"
#include "models/shapes.hpp"

namespace rehearsal::models {

void KernelRewrite::kernel(Steps& steps, KernelKind kind, const std::vector<std::int64_t>& dims,
                           std::vector<Operand> operands) {
  Kernel kernel{.kind = kind};
  std::copy(dims.begin(), dims.end(), kernel.dims.begin());
  steps.push_back({name(kind), kernel, std::move(operands)});
}
void KernelRewrite::collective(Steps& steps, CollectiveKind kind, Index v) {
  steps.push_back({name(kind), GroupCollective{kind, Axis::tensor, Bytes{}}, {write(v)}});
}
void KernelRewrite::collective(Steps& steps, CollectiveKind kind, Axis axis, Index from, Index to) {
  steps.push_back({name(kind), GroupCollective{kind, axis, Bytes{}}, {read(from), write(to)}});
}
KernelRewrite::Index KernelRewrite::moved(Steps& steps, CollectiveKind kind, Axis axis, Index from,
                                          std::int64_t elements) {
  const Index to = value(elements);
  collective(steps, kind, axis, from, to);
  return to;
}

KernelRewrite::KernelRewrite(const Block& block, const Transformer& model, const NetworkShape& shape)
    : block_(block),
      model_(model),
      shape_(shape),
      rows_(shape.shard.tokens()),
      total_(rows_ * shape.shard.microbatches * shape.data * shape.shard.sequence_parts()),
      place_(block.values.size()),
      gradients_(block.values.size()),
      statistics_(block.operators.size()) {}

Part KernelRewrite::build(Recompute recompute) {
  segments();
  for (std::size_t v = 0; v < block_.values.size(); ++v) place_[v] = value(block_.values[v].elements);
  size_slots();
  for (std::size_t i = 0; i < block_.operators.size(); ++i) forward(block_.operators[i], i);
  if (block_.input) part_.input = place_[*block_.input];
  if (block_.output) {
    part_.output = place_[*block_.output];
    if (trains_below()) part_.output_gradient = gradients_[*block_.output] = like(*block_.output);
  }
  for (std::size_t i = block_.operators.size(); i-- > 0;)
    if (trains_below()) backward(block_.operators[i], i);
  if (block_.input) part_.input_gradient = gradients_[*block_.input];

  Steps again;
  // For a decoder layer the checkpoint is the sum of its input and its skip connection, in place of the input.
  if (recompute == Recompute::full)
    again.assign(part_.forward.begin() + (part_.skip.taken ? 1 : 0), part_.forward.end());
  if (recompute == Recompute::selective)
    again.assign(part_.forward.begin() + attention_.first, part_.forward.begin() + attention_.last);
  again = needed_again(part_, again);
  part_.backward = part_.input_gradient_steps;
  part_.backward.insert(part_.backward.end(), part_.weight_gradient_steps.begin(), part_.weight_gradient_steps.end());
  repeat(part_, std::move(again));
  part_matrices();
  store();
  return std::move(part_);
}

// Keys have no bias here: softmax does not see it, its gradient is rounding noise, and Adam would make weights of
// that.
void KernelRewrite::segments() {
  for (auto segment : block_.segments) {
    segment.elements = 0;
    for (auto& tensor : segment.tensors) {
      if (tensor.kind == TensorKind::qkv_bias) tensor.kind = TensorKind::qv_bias, tensor.outer = 2;
      tensor.offset = segment.elements;
      segment.elements += tensor.elements();
      part_.parameters += double(tensor.elements());
      if (is_of_experts(tensor.kind)) part_.expert_parameters += double(tensor.elements());
    }
    part_.segments.push_back(std::move(segment));
  }
  // Gains of heads are those of all tensor ranks, which have different heads.
  for (const auto& op : block_.operators)
    for (const Index p : op.parameters)
      if (of_own_rows(op) || (op.kind == Kind::head_norm && shape_.shard.tensor > 1))
        tensor(p).summed_over_tensor = true;
}
// What the optimizer steps on as whole matrices gets segments of its own, in its order: products whose weights follow
// each other still find them so.
void KernelRewrite::part_matrices() {
  if (!shape_.steps_whole) return;
  std::vector<Segment> parted;
  std::vector<Index> now;  // of each tensor, by its number until here
  Index first = 0;         // of the segment
  for (const auto& segment : part_.segments) {
    const auto begin = now.size();
    now.resize(begin + segment.tensors.size());
    for (const bool whole : {true, false}) {
      Segment some;
      some.tied = segment.tied;
      for (std::size_t i = 0; i < segment.tensors.size(); ++i) {
        Tensor tensor = segment.tensors[i];
        if (shape_.steps_whole(tensor) != whole) continue;
        now[begin + i] = static_cast<Index>(first + some.tensors.size());
        tensor.offset = some.elements, some.elements += tensor.elements();
        some.tensors.push_back(tensor);
      }
      first = static_cast<Index>(first + some.tensors.size());
      if (!some.tensors.empty()) parted.push_back(std::move(some));
    }
  }
  part_.segments = std::move(parted);
  for (auto* steps : {&part_.forward, &part_.input_gradient_steps, &part_.weight_gradient_steps, &part_.backward})
    for (auto& step : *steps)
      for (auto& o : step.operands)
        if (o.of == Operand::Of::parameter || o.of == Operand::Of::gradient) o.index = now[o.index];
}
// Operators between tp_reduce_out and tp_scatter_in have only some of the rows, each rank its own, if tokens are split
// over the tensor group (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
bool KernelRewrite::of_own_rows(const Operator& op) const {
  return !op.in.empty() && rows(op.in[0]) < rows_ && op.section != Section::experts;
}
Tensor& KernelRewrite::tensor(Index parameter) {
  for (auto& segment : part_.segments) {
    if (parameter < segment.tensors.size()) return segment.tensors[parameter];
    parameter = static_cast<Index>(parameter - segment.tensors.size());
  }
  INVARIANT(false, "no such tensor");
  return part_.segments.front().tensors.front();
}

void KernelRewrite::forward(const Operator& op, std::size_t number) {
  Steps& F = part_.forward;
  const std::int64_t T = rows(op.out.empty() ? op.in[0] : op.out[0]);
  if (in_chunks(op)) return;
  switch (op.kind) {
    case Kind::embed:
      return kernel(F, KernelKind::embed, {T, columns(op.out[0]), slice(op)},
                    {weight(op.parameters[0]), write(at(op.out[0]))});
    case Kind::add_positions:
      return kernel(F, KernelKind::add_positions, positions_dims(op), {weight(op.parameters[0]), write(at(op.in[0]))});
    case Kind::load_rows:
      return kernel(F, KernelKind::load_rows, {T, columns(op.out[0])}, {write(at(op.out[0]))});
    case Kind::norm: {
      if (llama()) {
        statistics_[number] = value(T);
        return kernel(
            F, KernelKind::rms_norm, {T, columns(op.in[0])},
            {read(at(op.in[0])), weight(op.parameters[0]), write(at(op.out[0])), write(*statistics_[number])});
      }
      statistics_[number] = value(2 * T);
      return kernel(F, KernelKind::layer_norm, {T, columns(op.in[0])},
                    {read(at(op.in[0])), weight(op.parameters[0]), weight(op.parameters[1]), write(at(op.out[0])),
                     write(*statistics_[number])});
    }
    case Kind::linear: {
      kernel(F, KernelKind::linear, {T, columns(op.out[0]), columns(op.in[0])},
             {read(at(op.in[0])), weight(op.parameters[0]), write(at(op.out[0]))});
      if (const auto bias = bias_of(op))
        kernel(F, KernelKind::add_bias, {T, columns(op.out[0]), columns_of(*bias)},
               {weight(*bias), write(at(op.out[0]))});
      return;
    }
    case Kind::attention:
      attention_.first = std::ptrdiff_t(F.size());
      attention(op);
      attention_.last = std::ptrdiff_t(F.size());
      return;
    case Kind::activate:
      if (gated())
        return kernel(F, KernelKind::swiglu, {of_experts(op) ? held_rows() : T, columns(op.out[0])},
                      {read(at(op.in[0])), write(at(op.out[0]))});
      return kernel(F, KernelKind::gelu, {T * columns(op.in[0])}, {read(at(op.in[0])), write(at(op.out[0]))});
    case Kind::tp_reduce_out:
      if (op.in[0] == op.out[0]) return collective(F, CollectiveKind::all_reduce, at(op.in[0]));
      return collective(F, CollectiveKind::reduce_scatter, Axis::tensor, at(op.in[0]), at(op.out[0]));
    case Kind::add:  // in the place of the branch
      place_[op.out[0]] = at(op.in[1]);
      if (op.parameters.empty())
        return kernel(F, KernelKind::add, {T * columns(op.in[0])}, {read(at(op.in[0])), write(at(op.in[1]))});
      return kernel(F, KernelKind::add_residual, {T, columns(op.in[0])},
                    {read(at(op.in[0])), weight(op.parameters[0]), write(at(op.in[1]))});
    case Kind::skip_add:  // in the place of the second
      place_[op.out[0]] = at(op.in[1]);
      if (op.in[0] == block_.skip_taken) part_.skip.taken = at(op.in[0]);
      return kernel(F, KernelKind::add, {T * columns(op.in[0])}, {read(at(op.in[0])), write(at(op.in[1]))});
    case Kind::skip_out:  // a copy, which may leave the rank
      part_.skip.given = at(op.out[0]);
      return kernel(F, KernelKind::copy, {T * columns(op.in[0])}, {read(at(op.in[0])), write(at(op.out[0]))});
    case Kind::route:
      return route(op);
    case Kind::dispatch:
      return dispatch(op);
    case Kind::expert_linear:
      return expert_linear(op);
    case Kind::combine:
      return combine(op);
    case Kind::own_rows:
      return kernel(F, KernelKind::own_rows, {T, columns(op.in[0]), shape_.shard.tensor},
                    {read(at(op.in[0])), write(at(op.out[0]))});
    case Kind::all_rows:
      return collective(F, CollectiveKind::all_gather, Axis::tensor, at(op.in[0]), at(op.out[0]));
    case Kind::gather_rows:
      entered_[op.out[0]] = {Axis::expert_tensor, op.in[0]};
      return collective(F, CollectiveKind::all_gather, Axis::expert_tensor, at(op.in[0]), at(op.out[0]));
    case Kind::scatter_rows:
      return collective(F, CollectiveKind::reduce_scatter, Axis::expert_tensor, at(op.in[0]), at(op.out[0]));
    case Kind::add_bias:
      return kernel(F, KernelKind::add_bias, {T, columns(op.in[0]), std::int64_t(Bias::whole)},
                    {weight(op.parameters[0]), write(at(op.in[0]))});
    case Kind::loss: {
      // From per-slice maxima and sums: one small all-gather where Megatron-LM has three all-reduces.
      const std::int64_t t = shape_.shard.tensor, n = columns(op.in[0]), all = model_.vocabulary;
      const Index parts = value(3 * T * t);
      statistics_[number] = value(T);
      kernel(F, KernelKind::cross_entropy_local, {T, n, all, t}, {read(at(op.in[0])), write(parts)});
      if (t > 1) collective(F, CollectiveKind::all_gather, parts);
      return kernel(F, KernelKind::cross_entropy, {T, n, all, t, total_},
                    {read(parts), write(*statistics_[number]), sum_of_losses()});
    }
    case Kind::squared_error:
      return kernel(F, KernelKind::squared_error, {T, columns(op.in[0]), total_},
                    {read(at(op.in[0])), sum_of_losses()});
    case Kind::head_norm:  // beside the values, of which only the product's are there
      statistics_[number] = value(rows_ * (heads() + kv_heads()));
      place_[op.out[0]] = value(rows_ * (query_columns() + kv_columns()));
      return kernel(F, KernelKind::head_norm, head_norm_dims(),
                    {read(at(op.in[0])), weight(op.parameters[0]), write(at(op.out[0])), write(*statistics_[number])});
    case Kind::convolve:
      attention_.first = std::ptrdiff_t(F.size());
      return convolve(op);
    case Kind::scan:
      scan(op);
      attention_.last = std::ptrdiff_t(F.size());
      return;
    case Kind::gate:
      if (!op.parameters.empty()) return gated_norm(op, number);
      return kernel(F, KernelKind::gate, {T * columns(op.out[0])},
                    {read(at(op.in[0])), read(at(op.in[1])), write(at(op.out[0]))});
    case Kind::rotate:  // in place
      if (llama()) kernel(F, KernelKind::rotary, rotary_dims(op), {write(at(op.in[0]))});
      return;
    case Kind::tp_scatter_in:
      if (op.in[0] == op.out[0]) return;
      entered_[op.out[0]] = {Axis::tensor, op.in[0]};
      if (const auto* head = chunked_head(); head && head->in[0] == op.out[0]) return;  // gathered with the chunks
      return collective(F, CollectiveKind::all_gather, Axis::tensor, at(op.in[0]), at(op.out[0]));
    default:
      INVARIANT(false, "refused before");
  }
}

// A value of the forward, for a weight gradient. Gathered values are gathered again rather than kept, as by Korthikanti
// et al. (section 4.2.2).
KernelRewrite::Index KernelRewrite::seen_again(Steps& steps, Index v) {
  const auto found = entered_.find(v);
  if (found == entered_.end()) return at(v);
  const auto& [axis, from] = found->second;
  return moved(steps, CollectiveKind::all_gather, axis, at(from), elements_[at(v)]);
}

// If several operators read a value, its first gradient is the buffer of the sum.
void KernelRewrite::add_gradient(Index v, Index made) {
  auto& sum = gradients_[v];
  if (sum)
    kernel(part_.input_gradient_steps, KernelKind::add, {elements_[made]}, {read(made), write(*sum)});
  else
    sum = made;
}

void KernelRewrite::backward(const Operator& op, std::size_t number) {
  Steps &I = part_.input_gradient_steps, &W = part_.weight_gradient_steps;
  const std::int64_t T = rows(op.out.empty() ? op.in[0] : op.out[0]);
  const auto grad = [&](Index v) -> std::optional<Index>& { return gradients_[v]; };
  if (in_chunks(op)) return op.kind == Kind::loss ? loss_of_chunks() : void();
  switch (op.kind) {
    case Kind::embed:
      return kernel(W, KernelKind::embed_gradient, {T, columns(op.out[0]), slice(op)},
                    {read(*grad(op.out[0])), gradient(op.parameters[0])});
    case Kind::add_positions:
      return kernel(W, KernelKind::positions_gradient, positions_dims(op),
                    {read(*grad(op.in[0])), gradient(op.parameters[0])});
    case Kind::norm: {
      const Index d = *grad(op.out[0]), x = op.in[0];
      std::vector<Operand> operands{read(at(x)), read(*statistics_[number]), weight(op.parameters[0]),
                                    gradient(op.parameters[0])};
      if (!llama()) operands.push_back(gradient(op.parameters[1]));
      operands.push_back(write(d));
      kernel(I, llama() ? KernelKind::rms_norm_gradient : KernelKind::layer_norm_gradient, {T, columns(x)},
             std::move(operands));
      if (const auto branch = grad(x)) kernel(I, KernelKind::add, {T * columns(x)}, {read(*branch), write(d)});
      grad(x) = d;
      return;
    }
    case Kind::linear: {
      const Index dy = *grad(op.out[0]), x = op.in[0];
      const std::int64_t n = columns(op.out[0]), k = columns(x);
      if (const auto bias = bias_of(op))
        kernel(I, KernelKind::bias_gradient, {T, n, columns_of(*bias)}, {read(dy), gradient(*bias)});
      const Index dx = like(x);
      kernel(I, KernelKind::linear_input_gradient, {T, n, k}, {read(dy), weight(op.parameters[0]), write(dx)});
      add_gradient(x, dx);
      const Index seen = seen_again(W, x);
      return kernel(W, KernelKind::linear_weight_gradient, {T, n, k},
                    {read(dy), read(seen), gradient(op.parameters[0])});
    }
    case Kind::attention:
      return attention_gradient(op);
    case Kind::activate:
      if (gated()) {
        grad(op.in[0]) = like(op.in[0]);
        return kernel(I, KernelKind::swiglu_gradient, {of_experts(op) ? held_rows() : T, columns(op.out[0])},
                      {read(at(op.in[0])), read(*grad(op.out[0])), write(*grad(op.in[0]))});
      }
      grad(op.in[0]) = grad(op.out[0]);  // in place
      return kernel(I, KernelKind::gelu_gradient, {T * columns(op.in[0])},
                    {read(at(op.in[0])), write(*grad(op.in[0]))});
    case Kind::tp_scatter_in:
      if (op.in[0] == op.out[0]) return collective(I, CollectiveKind::all_reduce, *grad(op.in[0]));
      return add_gradient(
          op.in[0], moved(I, CollectiveKind::reduce_scatter, Axis::tensor, *grad(op.out[0]), elements_[at(op.in[0])]));
    case Kind::add: {
      const Index d = *grad(op.out[0]);
      grad(op.in[0]) = grad(op.in[1]) = d;
      if (op.parameters.empty()) return;
      return kernel(I, KernelKind::bias_gradient, {T, columns(op.in[0]), std::int64_t(Bias::whole)},
                    {read(d), gradient(op.parameters[0])});
    }
    case Kind::skip_add:
      grad(op.in[0]) = grad(op.in[1]) = *grad(op.out[0]);
      if (op.in[0] != block_.skip_taken) return;
      part_.skip.taken_gradient = like(op.in[0]);
      return kernel(I, KernelKind::copy, {T * columns(op.in[1])},
                    {read(*grad(op.in[1])), write(*part_.skip.taken_gradient)});
    case Kind::skip_out:
      part_.skip.given_gradient = grad(op.out[0]) = like(op.out[0]);
      return add_gradient(op.in[0], *grad(op.out[0]));
    case Kind::route:
      return route_gradient(op);
    case Kind::dispatch:
      return dispatch_gradient(op);
    case Kind::expert_linear:
      return expert_linear_gradient(op);
    case Kind::combine:
      return combine_gradient(op);
    case Kind::own_rows:
      return add_gradient(
          op.in[0], moved(I, CollectiveKind::all_gather, Axis::tensor, *grad(op.out[0]), elements_[at(op.in[0])]));
    case Kind::all_rows: {  // later operators are equal on all ranks, and so is their gradient
      const Index own = like(op.in[0]);
      kernel(I, KernelKind::own_rows, {rows(op.in[0]), columns(op.in[0]), shape_.shard.tensor},
             {read(*grad(op.out[0])), write(own)});
      return add_gradient(op.in[0], own);
    }
    case Kind::gather_rows:
      return add_gradient(op.in[0], moved(I, CollectiveKind::reduce_scatter, Axis::expert_tensor, *grad(op.out[0]),
                                          elements_[at(op.in[0])]));
    case Kind::scatter_rows:
      return add_gradient(op.in[0], moved(I, CollectiveKind::all_gather, Axis::expert_tensor, *grad(op.out[0]),
                                          elements_[at(op.in[0])]));
    case Kind::add_bias:
      return kernel(I, KernelKind::bias_gradient, {T, columns(op.in[0]), std::int64_t(Bias::whole)},
                    {read(*grad(op.in[0])), gradient(op.parameters[0])});
    case Kind::loss:  // in the place of the logits
      grad(op.in[0]) = at(op.in[0]);
      return kernel(I, KernelKind::cross_entropy_gradient, {T, columns(op.in[0]), model_.vocabulary, total_},
                    {read(*statistics_[number]), write(at(op.in[0]))});
    case Kind::squared_error:
      grad(op.in[0]) = like(op.in[0]);
      return kernel(I, KernelKind::squared_error_gradient, {T, columns(op.in[0]), total_},
                    {read(at(op.in[0])), write(*grad(op.in[0]))});
    case Kind::head_norm:
      grad(op.in[0]) = *grad(op.out[0]);  // in place
      return kernel(I, KernelKind::head_norm_gradient, head_norm_dims(),
                    {read(at(op.in[0])), read(*statistics_[number]), weight(op.parameters[0]),
                     gradient(op.parameters[0]), write(*grad(op.in[0]))});
    case Kind::convolve:
      return convolve_gradient(op);
    case Kind::scan:
      return scan_gradient(op);
    case Kind::gate: {
      if (!op.parameters.empty()) return gated_norm_gradient(op, number);
      const Index dy = *grad(op.out[0]);
      grad(op.in[0]) = like(op.in[0]), grad(op.in[1]) = like(op.in[1]);
      return kernel(I, KernelKind::gate_gradient, {T * columns(op.out[0])},
                    {read(at(op.in[0])), read(at(op.in[1])), read(dy), write(*grad(op.in[0])), write(*grad(op.in[1]))});
    }
    case Kind::rotate:
      if (llama()) kernel(I, KernelKind::rotary_gradient, rotary_dims(op), {write(*grad(op.in[0]))});
      return;
    case Kind::tp_reduce_out:
      if (op.in[0] != op.out[0])
        grad(op.in[0]) = moved(I, CollectiveKind::all_gather, Axis::tensor, *grad(op.out[0]), elements_[at(op.in[0])]);
      return;
    case Kind::load_rows:
      return;
    default:
      INVARIANT(false, "refused before");
  }
}

// Gives kernels the precision of the network, and values and collectives the sizes that follow from it.
void KernelRewrite::store() {
  const auto lists = {&part_.forward, &part_.input_gradient_steps, &part_.weight_gradient_steps, &part_.backward};
  std::vector<std::optional<Precision>> stored(part_.values.size());
  for (auto* steps : lists)
    for (auto& step : *steps) {
      auto* kernel = std::get_if<Kernel>(&step.what);
      if (!kernel) continue;
      kernel->precision = shape_.precision;
      for (std::size_t i = 0; i < step.operands.size(); ++i) {
        if (step.operands[i].of != Operand::Of::value) continue;
        auto& known = stored[step.operands[i].index];
        const Precision here = operand_precision(*kernel, i);
        INVARIANT(!known || *known == here, std::string(name(kernel->kind)) + " finds a value in another precision");
        known = here;
      }
    }
  INVARIANT(elements_.size() == part_.values.size(), "nobody makes the output a second time");
  for (std::size_t v = 0; v < elements_.size(); ++v)
    part_.values[v].size = Bytes(elements_[v] * bytes_per_element(stored[v].value_or(shape_.precision)));
  for (auto* steps : lists)
    for (auto& step : *steps)
      if (auto* collective = std::get_if<GroupCollective>(&step.what)) {
        for (const auto& operand : step.operands)  // the whole value, of which other operands may be a part
          collective->size = std::max(collective->size, part_.values[operand.index].size);
        collective->precision = stored[step.operands.front().index].value_or(shape_.precision);
      }
}

Network performed_network(const Transformer& model, const NetworkShape& shape) {
  const auto refuse = [](const char* what) {
    throw UserError(std::string("framework native has no kernels for ") + what +
                    "; it performs families gpt, u-transformer and mlp with gelu, llama and moe with swiglu");
  };
  const bool moe = model.is_moe(), llama = model.family == Family::llama || moe;
  if (model.ffn_kind == FfnKind::squared_relu) refuse("ffn_kind squared-relu");
  if (llama != (model.ffn_kind == FfnKind::swiglu)) refuse(llama ? "llama or moe with gelu" : "ffn_kind swiglu");
  if (model.mla) refuse("latent attention");
  if (model.mtp_layers > 0) refuse("multi-token prediction");
  if (model.vision) refuse("towers in front of a model");
  for (const auto& [layer, count] : layer_table(model).rows) {
    const auto& [mixer, ffn, skip] = layer;
    if (mixer.kind == MixerKind::mamba2) {
      refuse_state_space(mixer, shape);
    } else if (mixer.recurrent()) {
      throw UserError(
          "framework native has no kernels for the gated delta rule and lightning attention; of mixers with a state it "
          "performs mamba2");
    }
    if (mixer.sparse > 0) refuse("sparse attention");
    if (mixer.window + mixer.chunk > 0 && !shape.causal) refuse("windows or chunks without a causal mask");
    if (mixer.keys_as_values) refuse("values that are keys");
    if (mixer.value_columns > 0 && !mixer.recurrent()) refuse("values whose heads are not as wide as those of keys");
    if (ffn.latent > 0) refuse("latent experts");
  }
  if (shape.precision != Precision::fp32 && shape.precision != Precision::bf16)
    throw UserError(std::string("framework native has no kernels for precision ") + name(shape.precision) +
                    "; it computes in fp32 and bf16");
  if (model.family != Family::mlp) {
    if (model.kv_heads != model.heads && !llama) refuse("grouped key-value heads");
    if (model.kv_heads < shape.shard.tensor) refuse("fewer key-value heads than tensor ranks");
    const std::int64_t kv = model.kv_heads / shape.shard.tensor;
    if (shape.context == ContextKind::all_to_all && kv % shape.shard.context != 0)
      throw UserError(fmt::format(
          "framework native deals key-value heads out whole in 'all-to-all' of 'training.context', and 'context' {} "
          "does not divide the {} of a rank; set 'training.context' to ring or all-gather",
          shape.shard.context, kv));
    if (model.head_dim * model.heads != model.hidden) refuse("heads that do not add up to the hidden size");
  }
  auto parts = blocks(model, {.shard = shape.shard, .pad_vocabulary = shape.pad_vocabulary, .separate_mixer = true});
  const auto rewrite = [&](const Block& block, Recompute mode) {
    return KernelRewrite(block, model, shape).build(mode);
  };
  Network network{
      rewrite(parts.embedding, Recompute::none), rewrite(parts.head, Recompute::none), {}, {}, {}, {}, shape.precision};
  for (const auto& layer : parts.layers) network.layers.push_back(rewrite(layer, shape.recompute));
  network.of_layer = std::move(parts.table.of_layer);
  return network;
}

}  // namespace rehearsal::models
