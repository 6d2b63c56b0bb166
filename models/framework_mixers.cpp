// Of mixers, as frameworks run them: gates, norms of heads, the indexer of sparse attention, and recurrent mixers,
// whose short convolution and scan are kernels of their own (flash-linear-attention, mamba_ssm).
//
// A scan needs whole sequences: over a context group, heads are cut instead of tokens meanwhile, whatever attention
// does (Megatron-Core, core/ssm/mamba_context_parallel.py).
#include <utility>

#include "models/framework_rewrite.hpp"
#include "models/recurrent.hpp"

namespace rehearsal::models {
namespace {

// Times the forward's: both gradients of every product, and the states once more.
constexpr double kScanBackward = 3;

}  // namespace

// x and the gate read, y written; the gradient is read with both, and two are written. A norm reads x once more each
// way.
void FrameworkRewrite::gate(const Operator& op, bool back) {
  const Index x = op.in[0], by = op.in[1], y = op.out[0];
  const double size = double(block_.values[y].elements), norm = op.parameters.empty() ? 0 : element_;
  const std::int64_t kernels = run_.compiled() || !op.parameters.empty() ? 1 : 2;
  if (!back)
    return part_.forward.push_back(
        plain(op.name, fused_ * (3 * element_ + norm) * size, kernels, {read(x), read(by), write(y)}));
  const Index dy = *gradients_[y];
  part_.input_gradient_steps.push_back(
      plain(op.parameters.empty() ? "gate gradient" : "gated norm gradient", fused_ * (5 * element_ + norm) * size,
            kernels, {read(x), read(by), read(dy), write(gradient_of(x)), write(gradient_of(by))}));
}

// Fused: read and written; the gradient reads the original once more. Else a norm as any other.
void FrameworkRewrite::norm_heads(const Operator& op, bool back) {
  const Index y = op.out[0];
  const double size = double(block_.values[y].elements);
  const bool fused = run_.training.kernels == Kernels::fused;
  const auto& cost = back ? back_.norm : cost_.norm;
  const Moved moved = fused ? Moved((back ? 3 : 2) * element_) : wide_ * cost.bytes;
  const std::int64_t kernels = fused ? 2 : 2 * cost.kernels;
  Operands operands;
  for (const auto v : op.in) operands.push_back(read(v));
  if (!back) {
    operands.push_back(write(y));
    return part_.forward.push_back(plain(op.name, moved * size, kernels, std::move(operands)));
  }
  operands.push_back(read(*gradients_[y]));
  for (const auto v : op.in) operands.push_back(write(gradient_of(v)));
  part_.input_gradient_steps.push_back(
      plain("query and key norm gradient", moved * size, kernels, std::move(operands)));
}

// Scores of all earlier keys, half of the square, in as few bits as products have; each is read once by the selection.
// The gradient is that of the chosen scores alone (2512.02556, section 2.1: the indexer learns from their
// distribution).
void FrameworkRewrite::choose_keys(const Operator& op, bool back) {
  const auto& mixer = layer_.mixer;
  const std::int64_t queries = run_.shard.sequence / run_.shard.sequence_parts();
  const std::int64_t keys = back ? std::min(mixer.sparse, run_.shard.sequence)
                                 : std::max<std::int64_t>(1, run_.shard.sequence / (run_.training.causal ? 2 : 1));
  const Gemm scores{queries, keys, mixer.index_dim, run_.shard.micro_batch * mixer.index_heads, run_.training.precision,
                    false};
  Operands operands{read(op.in[0]), read(op.in[1])};
  if (!back) {
    part_.values[op.out[0]].size = Bytes(4 * block_.values[op.out[0]].elements);
    const double scored = double(run_.shard.micro_batch) * double(queries) * double(keys);
    const Index all = value(4 * scored);
    operands.push_back(write(all));
    part_.forward.push_back({"index scores", scores, std::move(operands)});
    return part_.forward.push_back(plain("top-k keys", 2 * 4 * scored, 2, {read(all), write(op.out[0])}));
  }
  operands.push_back(read(op.out[0]));
  for (const auto v : op.in) operands.push_back(write(gradient_of(v)));
  for (int i = 0; i < 2; ++i) part_.input_gradient_steps.push_back({"index scores gradient", scores, operands});
}

void FrameworkRewrite::convolve(const Operator& op, bool back) {
  const Index x = op.in[0], y = op.out[0];
  const double size = double(block_.values[x].elements);
  if (!back) return part_.forward.push_back(plain(op.name, 2 * element_ * size, 1, {read(x), write(y)}));
  part_.input_gradient_steps.push_back(plain("short convolution gradient", 3 * element_ * size, 1,
                                             {read(x), read(*gradients_[y]), write(gradient_of(x))}));
}

void FrameworkRewrite::scan(const Operator& op, bool back) {
  const auto cost = scan_cost(layer_.mixer);
  const double pairs = double(local_.tokens) * double(local_.heads);
  const std::int64_t c = run_.shard.context;
  auto& list = back ? part_.input_gradient_steps : part_.forward;
  const auto exchanged = [&](Index v, Operands operands) {
    const auto size = part_.values[v].size;
    list.push_back({"context all-to-all of heads", GroupCollective{CollectiveKind::all_to_all, Axis::context, size},
                    std::move(operands)});
  };
  const Index y = op.out[0], dy = back ? *gradients_[y] : y;
  const auto [first, second] = back ? std::pair(dy, gradient_of(op.in[0])) : std::pair(op.in[0], y);
  if (!back && cost.kept > 0) state_ = value(cost.kept * pairs);
  Operands operands;
  for (const auto v : op.in) operands.push_back(read(v));
  if (state_) operands.push_back(back ? read(*state_) : write(*state_));
  Index in = first, out = second;
  if (c > 1) {
    in = like(first), out = like(second);
    exchanged(first, {read(first), write(in)});
    operands.push_back(read(in));
  }
  if (back) {
    operands.push_back(read(in));
    for (std::size_t i = 1; i < op.in.size(); ++i) operands.push_back(write(gradient_of(op.in[i])));
  }
  operands.push_back(write(out));
  const double times = back ? kScanBackward : 1;
  list.push_back(plain(back ? "scan gradient" : "scan", times * cost.traffic * wide_ * pairs,
                       back ? 2 * cost.kernels : cost.kernels, std::move(operands)));
  if (c > 1) exchanged(second, {read(out), write(second)});
}

}  // namespace rehearsal::models
