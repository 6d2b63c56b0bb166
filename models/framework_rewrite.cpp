#include "models/framework_rewrite.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::models {
namespace {

using Kind = OperatorKind;

// Entries of the matrix whose gradient a GEMM makes; 0 for other steps.
double entries(const Step& step) {
  const auto* gemm = std::get_if<Gemm>(&step.what);
  return gemm ? double(gemm->m) * double(gemm->n) * double(gemm->batch) : 0;
}

// A stream in fp32: norms and sums move twice the bytes.
LayerTraffic streamed(LayerTraffic traffic, const FrameworkRun& run) {
  if (run.framework.fp32_stream && bytes_per_element(run.training.precision) < 4)
    traffic.norm.bytes = 2 * traffic.norm.bytes, traffic.residual.bytes = 2 * traffic.residual.bytes;
  return traffic;
}

}  // namespace

FrameworkRewrite::FrameworkRewrite(const Block& block, const FrameworkRun& run)
    : block_(block),
      run_(run),
      layer_(block.layer),
      local_(local_shape(run.model, layer_, run.shard)),
      cost_(streamed(forward_traffic(run.model, layer_.ffn.kind, run.training, run.framework), run)),
      back_(streamed(backward_traffic(run.model, layer_.ffn.kind, run.training, run.framework), run)),
      element_(double(bytes_per_element(unscaled(run.training.precision)))),
      wide_(element_ / 2),
      scores_(double(run.shard.micro_batch * local_.heads) * double(run.shard.sequence) * double(run.shard.sequence)),
      fused_(run.compiled() ? run.framework.compiled_traffic : 1),
      gradients_(block.values.size()),
      before_gather_(block.values.size()),
      casts_(block.values.size()),
      entered_from_(block.values.size()),
      masks_(block.operators.size()) {
  for (const auto& v : block.values) value(element_ * double(v.elements));
  find_stored(), widen_stream();
}

Part FrameworkRewrite::build(Recompute recompute) {
  part_.input = block_.input, part_.output = block_.output;
  part_.skip.given = block_.skip_given, part_.skip.taken = block_.skip_taken;
  std::vector<std::optional<RecomputeModule>> modules;            // of the steps of the forward
  std::vector<bool> graphed, graphed_gradients, graphed_weights;  // steps that a CUDA graph holds
  for (std::size_t i = 0; i < block_.operators.size(); ++i) {
    if (beside_exchange(block_.operators[i])) continue;  // emitted with the exchange
    forward(block_.operators[i], i);
    modules.resize(part_.forward.size(), is_layer() ? block_.operators[i].module : std::nullopt);
    graphed.resize(part_.forward.size(), in_graph(i));
  }
  auto& last = part_.forward.back().operands;
  last.insert(last.end(), pending_.begin(), pending_.end());  // the sum is there, though the next layer makes it
  if (block_.output) part_.output_gradient = gradient_of(*block_.output);
  for (std::size_t i = block_.operators.size(); i-- > 0;) {
    if (beside_exchange(block_.operators[i])) continue;
    backward(block_.operators[i], i);
    graphed_gradients.resize(part_.input_gradient_steps.size(), in_graph(i));
    graphed_weights.resize(weights_.size(), in_graph(i));
  }
  if (block_.input) part_.input_gradient = gradients_[*block_.input];
  count_parameters();
  gradients_to_update();
  for (auto weights : weights_) {
    weights.step.operands = weights.kept;
    part_.weight_gradient_steps.push_back(weights.step);
  }
  // All-reduces and their copies cost the host; the GPU's gap is inside the measured collective.
  const std::int64_t copies = is_layer() && run_.cut() && !in_graph(block_.operators.size() - 1) ? 4 : 0;
  const auto counted = [](const List& list, const std::vector<bool>& in_graphs) {
    List launched;
    for (std::size_t i = 0; i < list.size(); ++i)
      if (!in_graphs[i]) launched.push_back(list[i]);
    return launches(launched);
  };
  const auto weights = counted(part_.weight_gradient_steps, graphed_weights);
  const auto forward_launches = counted(part_.forward, graphed) + copies;
  part_.backward_launches = counted(part_.input_gradient_steps, graphed_gradients) + weights + copies;
  const auto accumulated = accumulation();
  if (accumulated) part_.weight_gradient_steps.push_back(*accumulated);
  const bool none = run_.framework.cuda_graph == CudaGraph::none;
  const auto separate = none ? static_cast<std::int64_t>(part_.weight_gradient_steps.size()) : weights;
  part_.weight_launches = std::min(separate, part_.backward_launches) + update_launches();
  part_.backward_launches += update_launches();

  auto again = recomputed_steps(part_, block_, modules, recompute, run_);
  keep_keys(again);
  for (auto* list : {&part_.forward, &part_.input_gradient_steps, &again}) pipeline(*list, run_);
  part_.forward_launches = {{part_.forward.size(), forward_launches}};
  if (has_experts() || (is_layer() && run_.framework.launches != LaunchCounts::kernels)) launch_modules();
  part_.backward = joined_backward(part_.input_gradient_steps, weights_, run_);
  if (accumulated) part_.backward.push_back(*accumulated);
  take_norms();
  update(part_.weight_gradient_steps), update(part_.backward);
  for (auto* list : {&part_.forward, &part_.input_gradient_steps, &part_.backward, &part_.norm_backward})
    hide_exchanges(*list, run_);
  for (auto* list : {&part_.forward, &part_.input_gradient_steps, &part_.backward, &part_.norm_backward, &again})
    hide_under_shared_experts(*list);
  repeat(part_, std::move(again));
  if (recompute != Recompute::full) store_narrow();
  const auto& training = run_.training;
  if (training.defragment && recompute == Recompute::full && !training.cuts_checkpoints() &&
      training.keeps_checkpoints() && is_layer())
    copy_checkpoint();
  part_.segments = block_.segments;
  return std::move(part_);
}

// Before a layer runs, its input is copied to the checkpoints; the backward starts from the copy. (If it is sharded
// over the tensor group, it is copied anyway: lower/checkpoints.cpp.)
void FrameworkRewrite::copy_checkpoint() {
  const Index copy = like(*part_.input);
  part_.values[copy].contiguous = true;
  part_.forward.insert(part_.forward.begin(),
                       plain("checkpoint to its place", 2 * double(part_.values[copy].size.count()), 1,
                             {read(*part_.input), write(copy)}));
  for (auto* list : {&part_.input_gradient_steps, &part_.weight_gradient_steps, &part_.backward, &part_.norm_backward})
    for (auto& step : *list)
      for (auto& operand : step.operands)
        if (operand.of == Operand::Of::value && operand.index == *part_.input) operand.index = copy;
  for (auto& run : part_.forward_launches) ++run.until;
  if (run_.framework.cuda_graph != CudaGraph::full) ++part_.forward_launches.front().launches;
}

// Each product completes one matrix; vectors are counted with the last of them.
void FrameworkRewrite::count_parameters() {
  for (const auto& segment : block_.segments) {
    part_.parameters += double(segment.elements);
    if (replicas_of(segment.tensors) == Axis::expert_data) part_.expert_parameters += double(segment.elements);
  }
  const auto& training = run_.training;
  for (const auto& op : block_.operators) {
    if (!quantised(op)) continue;
    const Gemm whole = op.kind == Kind::expert_linear ? expert_product(op) : product(op);
    const double full = double(whole.n) * double(whole.k) * double(whole.batch);
    const double spared = full * (1 - bytes_of(training.frozen_precision, element_) / element_);
    part_.spared += spared;
    if (op.kind == Kind::expert_linear) part_.expert_spared += spared;
  }
  if (training.frozen()) {  // vectors are frozen, too
    part_.expert_learning = adapter_parameters(true);
    part_.learning = adapter_parameters(false) + part_.expert_learning;
    for (const auto& weights : weights_)
      if (const double matrix = entries(weights.step); matrix > 0 && is_layer())
        part_.gradients.push_back({matrix, is_expert_product(weights.step.name)});
    for (const auto& op : block_.operators)
      if (learns(op)) {
        const auto copy = double(block_.tensor(op.parameters[0]).elements());
        part_.learning += copy;
        part_.gradients.push_back({copy, false});
      }
    part_.parameters += part_.learning, part_.expert_parameters += part_.expert_learning;
    return;
  }
  part_.learning = part_.parameters, part_.expert_learning = part_.expert_parameters;
  double left = part_.parameters - part_.expert_parameters, experts = part_.expert_parameters;
  for (const auto& [follows, step, kept] : weights_) {
    const auto* gemm = std::get_if<Gemm>(&step.what);
    const bool of_experts = gemm && is_expert_product(step.name);
    double& rest = of_experts ? experts : left;
    if (entries(step) == 0 || rest <= 0) continue;
    part_.gradients.push_back({std::min(rest, entries(step)), of_experts});
    rest -= part_.gradients.back().parameters;
  }
  const auto last = std::find_if(part_.gradients.rbegin(), part_.gradients.rend(),
                                 [](const Part::Gradient& g) { return !g.experts; });
  if (last == part_.gradients.rend())
    part_.gradients.push_back({left, false});
  else
    last->parameters += left;
}

// Megatron-Core's --cuda-graph-scope: a captured section is one launch, which here costs the host nothing.
bool FrameworkRewrite::in_graph(std::size_t number) const {
  switch (run_.framework.cuda_graph) {
    case CudaGraph::none:
    case CudaGraph::router:
      return false;
    case CudaGraph::attention:
    case CudaGraph::attention_router:
      return block_.operators[number].section == Section::attention;
    case CudaGraph::full:
      return true;
  }
  return false;
}

// --- values

FrameworkRewrite::Index FrameworkRewrite::value(double size, Value::Holds holds) {
  part_.values.push_back({bytes(size), holds});
  return static_cast<Index>(part_.values.size() - 1);
}
std::optional<FrameworkRewrite::Index> FrameworkRewrite::mask(double elements) {
  return run_.framework.dropout ? std::optional(value(elements)) : std::nullopt;
}
void FrameworkRewrite::keep_between(const Operator& op, const ElementCost& cost, Operands& operands) {
  const Index made = op.out[0];
  if (const auto known = between_.find(made); known != between_.end()) return operands.push_back(read(known->second));
  if (cost.kept == 0) return;
  between_[made] = value(element_ * cost.kept * double(block_.values[made].elements));
  operands.insert(operands.begin(), write(between_[made]));
}
FrameworkRewrite::Index FrameworkRewrite::gradient_of(Index v) {
  if (!gradients_[v]) gradients_[v] = like(v);
  return *gradients_[v];
}

// --- steps

Step FrameworkRewrite::traffic(std::string_view name, Moved moved, std::int64_t kernels, bool back,
                               Operands operands) const {
  const Traffic kind = !run_.framework.dropout ? Traffic::plain
                       : back                  ? Traffic::with_dropout_backward
                                               : Traffic::with_dropout_forward;
  return {name, MemoryBound{bytes(wide_ * moved.bytes), kernels, kind, bytes(wide_ * moved.beyond)},
          std::move(operands)};
}
Step FrameworkRewrite::plain(std::string_view name, Moved moved, std::int64_t kernels, Operands operands) const {
  return {name, MemoryBound{bytes(moved.bytes), kernels, Traffic::plain, bytes(moved.beyond)}, std::move(operands)};
}
Step FrameworkRewrite::batched(std::string_view name, std::int64_t n, std::int64_t k, Operands operands) const {
  const auto& shard = run_.shard;
  return {name, Gemm{shard.sequence, n, k, shard.micro_batch * local_.heads, unscaled(run_.training.precision), false},
          std::move(operands)};
}
GroupCollective FrameworkRewrite::of_tokens(CollectiveKind kind, Index whole) const {
  return {kind, Axis::tensor, bytes(element_ * double(block_.values[whole].elements))};
}
Step FrameworkRewrite::collective(std::string_view name, CollectiveKind kind, Index whole, Operands operands) const {
  return {name, of_tokens(kind, whole), std::move(operands)};
}

// --- operators

void FrameworkRewrite::forward(const Operator& op, std::size_t number) {
  switch (op.kind) {
    case Kind::embed:
      return embed(op, false);
    case Kind::norm:
      return forward_norm(op);
    case Kind::tp_scatter_in:
      return enter(op, false);
    case Kind::linear:
      return is_head(op) && in_chunks() ? void() : forward_linear(op);
    case Kind::rotate: {
      Operands operands;
      for (const auto v : op.in) operands.push_back(read(v));
      for (const auto v : op.out)  // in place, or other values
        if (std::find(op.in.begin(), op.in.end(), v) == op.in.end()) operands.push_back(write(v));
      // Of one matrix eager operations make queries and keys anew; values are a view that holds the whole of it.
      if (run_.training.kernels == Kernels::unfused && llama() && op.in.size() == 1) {
        between_[op.out[0]] = value(element_ * double(local_.tokens * (local_.query + local_.keys)));
        operands.push_back(write(between_[op.out[0]]));
      }
      part_.forward.push_back(
          traffic(op.name, rotation_traffic(), run_.compiled() ? 1 : 3, false, std::move(operands)));
      return;
    }
    case Kind::attention:
      return forward_attention(op);
    case Kind::head_norm:
      return norm_heads(op, false);
    case Kind::index:
      return choose_keys(op, false);
    case Kind::gate:
      return gate(op, false);
    case Kind::convolve:
      return convolve(op, false);
    case Kind::scan:
      return scan(op, false);
    case Kind::activate:
      return activate(op, false);
    case Kind::tp_reduce_out:
      return leave(op, false);
    case Kind::add:
      return forward_add(op, number);
    case Kind::loss:
      return loss(op, false);
    case Kind::route:
      return route(op, false);
    case Kind::dispatch:
    case Kind::combine:
      return travel(op, false);
    case Kind::gather_rows:
    case Kind::scatter_rows:
      return share_rows(op, false);
    case Kind::own_rows:
    case Kind::all_rows:
      return own_tokens(op, false);
    case Kind::expert_linear:
      return forward_experts(op);
    case Kind::skip_add:
      return join(op, false);
    case Kind::concatenate:
      return concatenate(op, false);
    case Kind::skip_out:
      return skip_out(op, false);
    case Kind::add_positions:  // within the kernels of the embedding
      return;
    case Kind::load_rows:
      return part_.forward.push_back(
          plain(op.name, element_ * double(block_.values[op.out[0]].elements), 1, {write(op.out[0])}));
    case Kind::add_bias:
    case Kind::squared_error:
      INVARIANT(false, "frameworks train no mlp");
  }
}

void FrameworkRewrite::backward(const Operator& op, std::size_t number) {
  switch (op.kind) {
    case Kind::embed:
      return embed(op, true);
    case Kind::norm:
      return backward_norm(op);
    case Kind::tp_scatter_in:
      return enter(op, true);
    case Kind::linear:
      return is_head(op) && in_chunks() ? void() : backward_linear(op);
    case Kind::rotate:
      return backward_rotate(op);
    case Kind::attention:
      return backward_attention(op);
    case Kind::head_norm:
      return norm_heads(op, true);
    case Kind::index:
      return choose_keys(op, true);
    case Kind::gate:
      return gate(op, true);
    case Kind::convolve:
      return convolve(op, true);
    case Kind::scan:
      return scan(op, true);
    case Kind::activate:
      return activate(op, true);
    case Kind::tp_reduce_out:
      return leave(op, true);
    case Kind::add:
      return backward_add(op, number);
    case Kind::loss:
      return loss(op, true);
    case Kind::route:
      return route(op, true);
    case Kind::dispatch:
    case Kind::combine:
      return travel(op, true);
    case Kind::gather_rows:
    case Kind::scatter_rows:
      return share_rows(op, true);
    case Kind::own_rows:
    case Kind::all_rows:
      return own_tokens(op, true);
    case Kind::expert_linear:
      return backward_experts(op);
    case Kind::skip_add:
      return join(op, true);
    case Kind::concatenate:
      return concatenate(op, true);
    case Kind::skip_out:
      return skip_out(op, true);
    default:
      return;
  }
}

// A compiler fuses a norm with the addition before it, also across layers.
void FrameworkRewrite::forward_norm(const Operator& op) {
  const double size = double(block_.values[op.in[0]].elements);
  const Moved norm = cost_.norm.bytes * size, residual = cost_.residual.bytes * size;
  Operands operands{read(op.in[0]), write(op.out[0])};
  keep_between(op, cost_.norm, operands);
  if (op.section == Section::none)
    return part_.forward.push_back(plain(op.name, wide_ * norm, cost_.norm.kernels, std::move(operands)));
  if (!run_.compiled())
    return part_.forward.push_back(traffic("norm", norm, cost_.norm.kernels, false, std::move(operands)));
  operands.insert(operands.end(), pending_.begin(), pending_.end());
  pending_.clear();
  part_.forward.push_back(traffic("add+norm", fused_ * (norm + residual), 1, false, std::move(operands)));
}
void FrameworkRewrite::backward_norm(const Operator& op) {
  const double size = double(block_.values[op.in[0]].elements);
  const Moved norm = back_.norm.bytes * size, residual = back_.residual.bytes * size;
  Operands operands{read(*gradients_[op.out[0]])};
  const bool copied = run_.training.kernels == Kernels::unfused && llama() && element_ < 4;  // to fp32
  if (!copied) operands.push_back(read(op.in[0]));
  keep_between(op, cost_.norm, operands);
  if (const auto branch = gradients_[op.in[0]]) operands.push_back(read(*branch));
  gradients_[op.in[0]] = like(op.in[0]);
  operands.push_back(write(*gradients_[op.in[0]]));
  auto& list = part_.input_gradient_steps;
  if (op.section == Section::none)
    list.push_back(plain(is_embedding() ? "embedding norm gradient" : "final norm gradient", wide_ * norm,
                         back_.norm.kernels, std::move(operands)));
  else if (run_.compiled())
    list.push_back(traffic("add+norm gradient", fused_ * (norm + residual), 2, true, std::move(operands)));
  else
    list.push_back(traffic("norm gradient", norm, back_.norm.kernels, true, std::move(operands)));
}

void FrameworkRewrite::forward_add(const Operator& op, std::size_t number) {
  Operands operands{read(op.in[0]), read(op.in[1]), write(op.out[0])};
  masks_[number] = mask(double(block_.values[op.in[1]].elements));
  if (masks_[number]) operands.push_back(write(*masks_[number]));
  if (run_.compiled()) return void(pending_ = std::move(operands));
  part_.forward.push_back(traffic(run_.framework.dropout ? "bias+dropout+add" : "add",
                                  cost_.residual.bytes * local_.residual, cost_.residual.kernels, false,
                                  std::move(operands)));
}
// Without dropout the gradient of the branch is that of the sum.
void FrameworkRewrite::backward_add(const Operator& op, std::size_t number) {
  const Index sum = *gradients_[op.out[0]];
  gradients_[op.in[0]] = gradients_[op.in[1]] = sum;
  Operands operands{read(sum)};
  if (masks_[number]) {
    gradients_[op.in[1]] = like(op.in[1]);
    operands.push_back(read(*masks_[number]));
    operands.push_back(write(*gradients_[op.in[1]]));
  }
  if (run_.compiled() && !masks_[number]) return;
  const bool costs = !run_.compiled();
  part_.input_gradient_steps.push_back(traffic(run_.framework.dropout ? "dropout gradient" : "add gradient",
                                               costs ? back_.residual.bytes * local_.residual : Moved(),
                                               costs ? back_.residual.kernels : 0, true, std::move(operands)));
}

void FrameworkRewrite::activate(const Operator& op, bool back) {
  const auto& cost = back ? back_.activation : cost_.activation;
  const double fused = layer_.ffn.kind == FfnKind::squared_relu ? 1 : fused_;  // out of reach of compilers
  const Moved bytes = op.section == Section::experts ? expert_activation_bytes(back) : fused * cost.bytes;
  Operands operands;
  for (const auto v : op.in) operands.push_back(read(v));
  if (op.section != Section::experts) keep_between(op, cost_.activation, operands);
  if (back) {
    operands.push_back(read(*gradients_[op.out[0]]));
    for (const auto v : op.in) operands.push_back(write(gradient_of(v)));
  } else {
    operands.push_back(write(op.out[0]));
  }
  auto& list = back ? part_.input_gradient_steps : part_.forward;
  list.push_back(traffic(back ? "activation gradient" : "activation", bytes * double(block_.values[op.out[0]].elements),
                         cost.kernels, back, std::move(operands)));
}

// Around each half of the layer: with sequence parallelism gather before the first GEMM and reduce-scatter after the
// last, otherwise one all-reduce after the last (Megatron f and g; Korthikanti 2205.05198, section 4.2.2).
void FrameworkRewrite::enter(const Operator& op, bool back) {
  const Index x = op.in[0], y = op.out[0];
  if (!run_.scattered()) {
    const bool twice =
        run_.framework.gate_reduced_apart && op.section == Section::feed_forward && layer_.ffn.kind == FfnKind::swiglu;
    for (int i = 0; back && i < (twice ? 2 : 1); ++i)
      part_.input_gradient_steps.push_back(
          collective("tensor all-reduce", CollectiveKind::all_reduce, x, {write(*gradients_[x])}));
    return;
  }
  if (!back) {
    part_.values[y].holds = Value::Holds::gathered;
    entered_from_[y] = x;
    part_.forward.push_back(collective("tensor all-gather", CollectiveKind::all_gather, y, {read(x), write(y)}));
    return;
  }
  const Index whole = *gradients_[y];
  part_.input_gradient_steps.push_back(
      collective("tensor reduce-scatter", CollectiveKind::reduce_scatter, y, {read(whole), write(gradient_of(x))}));
}
void FrameworkRewrite::leave(const Operator& op, bool back) {
  const Index x = op.in[0], y = op.out[0];
  if (!run_.scattered()) {
    if (!back) part_.forward.push_back(collective("tensor all-reduce", CollectiveKind::all_reduce, x, {write(x)}));
    return;
  }
  if (!back) {
    part_.forward.push_back(
        collective("tensor reduce-scatter", CollectiveKind::reduce_scatter, x, {read(x), write(y)}));
    return;
  }
  const Index parts = *gradients_[y];
  gradients_[x] = value(double(part_.values[x].size.count()), Value::Holds::gathered);
  before_gather_[x] = parts;
  part_.input_gradient_steps.push_back(
      collective("tensor all-gather", CollectiveKind::all_gather, x, {read(parts), write(*gradients_[x])}));
}

std::optional<Step> FrameworkRewrite::accumulation() const {
  if (!block_.input) return std::nullopt;  // within the kernels of an embedding
  double matrices = 0;
  for (const auto& weights : weights_) matrices += entries(weights.step);
  const double moved = accumulation_bytes(run_.training, run_.framework, run_.shard) * matrices;
  return moved > 0 ? std::optional(plain("gradient accumulation", moved, 1, {})) : std::nullopt;
}

}  // namespace rehearsal::models
