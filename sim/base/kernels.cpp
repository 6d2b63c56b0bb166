#include "base/kernels.hpp"

namespace rehearsal {
namespace table {
namespace {

using enum KernelKind;
using enum LinearProduct;
using Access = KernelOperand::Access;
using Holds = KernelOperand::Holds;

// --- counts of elements, by the dims of a kernel: a..h

enum Dim : std::size_t { a, b, c, d, e, f, g, h };

template <std::int64_t kFactor, std::size_t... kDims>
std::int64_t times(const Kernel& k, std::int64_t) {
  return (kFactor * ... * k.dims[kDims]);
}
template <std::size_t... kDims>
constexpr ElementCount of = times<1, kDims...>;
constexpr ElementCount nothing = times<0>;

std::int64_t bias(const Kernel& k, std::int64_t) {
  return static_cast<Bias>(k.dims[c]) == Bias::whole ? k.dims[b] : k.dims[b] / 3 * 2;
}
std::int64_t positions(const Kernel& k, std::int64_t) { return std::max<std::int64_t>(k.dims[d], 1) * of<b, c>(k, 0); }
std::int64_t qkv(const Kernel& k, std::int64_t) { return of<a, c, d>(k, 0) * (k.dims[b] + 2 * kv_heads(k)); }
std::int64_t block(const Kernel& k, std::int64_t) {
  return times<2, a, c, d>(k, 0) * kv_heads(k) * (k.dims[h] == kAllBlocks ? k.dims[g] : 1);
}
std::int64_t all_heads(const Kernel& k, std::int64_t) { return k.dims[a] * (k.dims[b] + 2 * k.dims[c]) * k.dims[d]; }
std::int64_t normed_heads(const Kernel& k, std::int64_t) { return k.dims[a] * (k.dims[b] + k.dims[c]); }
std::int64_t sinks(const Kernel& k, std::int64_t) { return std::max<std::int64_t>(k.dims[e], 1) * k.dims[b]; }
std::int64_t scan_columns(const Kernel& k, std::int64_t) { return scan_shape(k).tokens() * scan_shape(k).columns(); }
std::int64_t scan_results(const Kernel& k, std::int64_t) { return scan_shape(k).tokens() * k.dims[c] * k.dims[f]; }
std::int64_t scan_kept(const Kernel& k, std::int64_t) { return scan_shape(k).kept(); }
std::int64_t scan_scratch(const Kernel& k, std::int64_t) { return scan_shape(k).scratch(); }
std::int64_t scan_scalars(const Kernel& k, std::int64_t) { return 3 * scan_shape(k).context * k.dims[c]; }
std::int64_t last_rows_of(const Kernel& k, std::int64_t) { return k.dims[a] / k.dims[c] * (k.dims[d] - 1) * k.dims[b]; }
std::int64_t rows_before(const Kernel& k, std::int64_t) { return piece_of(k.dims[g]).follows ? last_rows_of(k, 0) : 0; }
std::int64_t rows_after(const Kernel& k, std::int64_t) { return piece_of(k.dims[g]).goes_on ? last_rows_of(k, 0) : 0; }
std::int64_t taps(const Kernel& k, std::int64_t) {
  return std::max<std::int64_t>(k.dims[f], 1) * k.dims[b] * (k.dims[d] + 1);
}
template <Dim kFirst>
std::int64_t copied(const Kernel& k, std::int64_t) {
  return k.dims[kFirst] + k.dims[a];
}
std::int64_t columns_in_runs(const Kernel& k, std::int64_t) { return k.dims[a] * (k.dims[c] + 2 * k.dims[d]); }

// Optimizers, and shards.
std::int64_t all_shards(const Kernel& k, std::int64_t data) { return (data + 1) * k.dims[a]; }
template <Dim kFlat>
std::int64_t flat(const Kernel& k, std::int64_t data) {
  return static_cast<Flat>(k.dims[kFlat]) == Flat::part ? all_shards(k, data) : k.dims[a];
}
Clip clip_of(const Kernel& k) { return k.kind == sgd ? static_cast<Clip>(k.dims[f]) : Clip::none; }
// Parameters that have a master copy are only written.
std::int64_t parameters_moved(const Kernel& k, std::int64_t) {
  return clip_of(k) == Clip::add ? 0 : (keeps_master(k) ? 1 : 2) * k.dims[a];
}
std::int64_t moments(const Kernel& k, std::int64_t) { return (keeps_master(k) ? 3 : 2) * k.dims[a]; }
// The master copy, or a norm of one double.
std::int64_t beside_sgd(const Kernel& k, std::int64_t) {
  return keeps_master(k) ? k.dims[a] : clip_of(k) != Clip::none ? 2 : -1;
}
std::int64_t beside_sgd_moved(const Kernel& k, std::int64_t) {
  return keeps_master(k) && clip_of(k) != Clip::add ? 2 * k.dims[a] : 0;
}
std::int64_t master(const Kernel& k, std::int64_t) { return keeps_master(k) ? k.dims[a] : -1; }
std::int64_t adalomo_moment(const Kernel& k, std::int64_t) {
  return k.dims[a] == 1 ? k.dims[b] : k.dims[a] + k.dims[b];
}

// --- operands

constexpr KernelOperand read(ElementCount extent, ElementCount moved = nullptr) {
  return {Access::read, Holds::values, extent, moved};
}
constexpr KernelOperand made(ElementCount extent, ElementCount moved = nullptr) {
  return {Access::write, Holds::values, extent, moved};
}
constexpr KernelOperand update(ElementCount extent, ElementCount moved = nullptr) {
  return {Access::update, Holds::values, extent, moved};
}
constexpr KernelOperand floats(KernelOperand operand) { return operand.holds = Holds::floats, operand; }
constexpr KernelOperand slots(KernelOperand operand) { return operand.holds = Holds::slots, operand; }
constexpr KernelOperand kLoss{Access::update, Holds::loss, times<2>, nothing};

constexpr KernelOperand kGradient = floats(update(flat<b>, times<2, a>));
constexpr KernelOperand kParameters = update(flat<c>, parameters_moved);
constexpr KernelTraits kAdam{.flat = true, .optimizer = true, .master = true, .positive = true, .replicas = e};

constexpr KernelInfo row(KernelKind kind, const char* name, std::array<KernelOperand, kMostOperands> operands,
                         KernelTraits traits = {}) {
  return {kind, name, operands, traits};
}

constexpr KernelInfo kKernels[] = {
    row(load_rows, "load_rows", {made(of<a, b>)}, {.data = BatchData::rows}),
    row(embed, "embed", {read(of<c, b>, of<a, b>), made(of<a, b>)}, {.data = BatchData::tokens}),
    row(add_positions, "add_positions", {read(positions, of<a, b>), update(of<a, b>)}),
    row(layer_norm, "layer_norm",
        {read(of<a, b>), read(of<b>), read(of<b>), made(of<a, b>), floats(made(times<2, a>))}),
    row(linear, "linear", {read(of<a, c>), read(of<b, c>), made(of<a, b>)}, {.linear = forward}),
    row(add_bias, "add_bias", {read(bias, of<b>), update(of<a, b>)}),
    row(gelu, "gelu", {read(of<a>), made(of<a>)}, {.flat = true}),
    row(attention, "attention", {read(qkv), made(of<a, b, c, d>), floats(made(of<a, b, c>))},
        {.attention = AttentionPass::forward}),
    row(add_residual, "add_residual", {read(of<a, b>), read(of<b>), update(of<a, b>)}),
    row(cross_entropy_local, "cross_entropy_local", {read(of<a, b>), floats(made(times<3, a, d>, nothing))},
        {.data = BatchData::tokens}),
    row(cross_entropy, "cross_entropy", {floats(read(times<3, a, d>)), floats(made(of<a>)), kLoss}, {.positive = true}),
    row(squared_error, "squared_error", {read(of<a, b>), kLoss}, {.data = BatchData::rows}),
    row(cross_entropy_gradient, "cross_entropy_gradient", {floats(read(of<a>, nothing)), update(of<a, b>)},
        {.data = BatchData::tokens}),
    row(squared_error_gradient, "squared_error_gradient", {read(of<a, b>), made(of<a, b>)}, {.data = BatchData::rows}),
    row(linear_input_gradient, "linear_input_gradient", {read(of<a, b>), read(of<b, c>), made(of<a, c>)},
        {.linear = input_gradient}),
    row(bias_gradient, "bias_gradient", {read(of<a, b>), floats(update(bias, times<2, b>))}),
    row(layer_norm_gradient, "layer_norm_gradient",
        {read(of<a, b>), floats(read(times<2, a>)), read(of<b>), floats(update(of<b>)), floats(update(of<b>)),
         update(of<a, b>)}),
    row(gelu_gradient, "gelu_gradient", {read(of<a>), update(of<a>)}, {.flat = true}),
    row(attention_gradient, "attention_gradient",
        {read(qkv), read(of<a, b, c, d>), floats(read(of<a, b, c>)), read(of<a, b, c, d>), made(qkv)},
        {.attention = AttentionPass::backward}),
    row(add, "add", {read(of<a>), update(of<a>)}, {.flat = true}),
    row(linear_weight_gradient, "linear_weight_gradient", {read(of<a, b>), read(of<a, c>), floats(update(of<b, c>))},
        {.linear = weight_gradient}),
    row(embed_gradient, "embed_gradient", {read(of<a, b>), floats(update(of<c, b>, times<2, a, b>))},
        {.data = BatchData::tokens}),
    row(positions_gradient, "positions_gradient", {read(of<a, b>), floats(update(positions, times<2, a, b>))}),
    row(clear, "clear", {floats(made(of<a>))}, {.flat = true}),
    row(copy, "copy", {read(of<a>), made(of<a>)}, {.flat = true}),
    row(add_own_shard, "add_own_shard", {floats(read(all_shards, of<a>)), floats(update(of<a>))},
        {.flat = true, .replicas = b}),
    row(sgd, "sgd", {kGradient, kParameters, floats(update(beside_sgd, beside_sgd_moved))},
        {.flat = true, .optimizer = true, .master = true, .replicas = e}),
    row(adamw, "adamw", {kGradient, kParameters, floats(update(moments))}, kAdam),
    row(adamw_keep, "adamw_keep", {kGradient, kParameters, floats(update(moments))}, kAdam),
    row(adamw_rollback, "adamw_rollback", {kGradient, kParameters, floats(update(moments))}, kAdam),
    row(rms_norm, "rms_norm", {read(of<a, b>), read(of<b>), made(of<a, b>), floats(made(of<a>))}),
    row(rms_norm_gradient, "rms_norm_gradient",
        {read(of<a, b>), floats(read(of<a>)), read(of<b>), floats(update(of<b>)), update(of<a, b>)}),
    row(rotary, "rotary", {update(of<a, e>, times<2, a, c, d>)}),
    row(rotary_gradient, "rotary_gradient", {update(of<a, e>, times<2, a, c, d>)}),
    row(swiglu, "swiglu", {read(times<2, a, b>), made(of<a, b>)}),
    row(swiglu_gradient, "swiglu_gradient", {read(times<2, a, b>), read(of<a, b>), made(times<2, a, b>)}),
    row(route, "route", {read(of<a, b>), floats(made(of<a, c>)), slots(made(of<a, c>)), floats(made(of<a, b>))}),
    row(route_gradient, "route_gradient",
        {floats(read(of<a, b>)), slots(read(of<a, c>)), floats(read(of<a, c>)), made(of<a, b>)}),
    row(dispatch_rows, "dispatch_rows", {read(of<a, b>), slots(read(of<a, c>)), made(of<b, d, e>)}),
    row(dispatch_rows_gradient, "dispatch_rows_gradient",
        {read(of<b, d, e>, of<a, b, c>), slots(read(of<a, c>)), made(of<a, b>)}),
    row(expert_linear, "expert_linear", {read(of<a, b, c, e>), read(of<b, d, e>), made(of<a, b, c, d>)},
        {.linear = forward, .of_experts = true}),
    row(expert_linear_input_gradient, "expert_linear_input_gradient",
        {read(of<a, b, c, d>), read(of<b, d, e>), made(of<a, b, c, e>)},
        {.linear = input_gradient, .of_experts = true}),
    row(expert_linear_weight_gradient, "expert_linear_weight_gradient",
        {read(of<a, b, c, d>), read(of<a, b, c, e>), floats(update(of<b, d, e>))},
        {.linear = weight_gradient, .of_experts = true}),
    row(combine_rows, "combine_rows",
        {read(of<b, d, e>, of<a, b, c>), slots(read(of<a, c>)), floats(read(of<a, c>)), made(of<a, b>)}),
    row(combine_rows_gradient, "combine_rows_gradient",
        {read(of<a, b>), read(of<b, d, e>, of<a, b, c>), slots(read(of<a, c>)), floats(read(of<a, c>)),
         made(of<b, d, e>), floats(made(of<a, c>))}),
    row(attention_part, "attention_part",
        {read(qkv, of<a, b, c, d>), read(block), floats(update(of<a, b, c, d>)), floats(update(of<a, b, c>))},
        {.attention = AttentionPass::forward}),
    row(attention_part_gradient, "attention_part_gradient",
        {read(qkv, of<a, b, c, d>), read(block), read(of<a, b, c, d>), floats(read(of<a, b, c>, times<2, a, b, c>)),
         read(of<a, b, c, d>), floats(update(of<a, b, c, d>)), floats(update(block))},
        {.attention = AttentionPass::backward}),
    row(take_columns, "take_columns", {read(of<a, b>, of<a, d>), made(of<a, d>)}),
    row(put_columns, "put_columns", {floats(read(of<a, d>)), made(of<a, b>, of<a, d>)}),
    row(cut_columns, "cut_columns", {read(columns_in_runs), made(columns_in_runs)}),
    row(join_columns, "join_columns", {read(columns_in_runs), made(columns_in_runs)}),
    row(join_rows, "join_rows", {read(of<a, b, c, d>), made(of<a, b, c, d>)}),
    row(cut_rows, "cut_rows", {read(of<a, b, c, d>), made(of<a, b, c, d>)}),
    row(own_rows, "own_rows", {read(of<a, b, c>, of<a, b>), made(of<a, b>)}),
    // Moments of the gradient, the norm of the update, the update itself; and the gradient is cleared.
    row(adalomo, "adalomo",
        {floats(update(of<a, b>, times<5, a, b>)), update(of<a, b>, times<3, a, b>),
         floats(update(adalomo_moment, nothing))},
        {.optimizer = true, .positive = true}),
    row(head_norm, "head_norm", {read(all_heads), read(times<2, d>), made(all_heads), floats(made(normed_heads))}),
    row(head_norm_gradient, "head_norm_gradient",
        {read(all_heads), floats(read(normed_heads)), read(times<2, d>), floats(update(times<2, d>)),
         update(all_heads)}),
    row(attention_sinks, "attention_sinks", {read(sinks, of<b>), update(of<a, b, c, d>), floats(update(of<a, b, c>))}),
    row(attention_sinks_gradient, "attention_sinks_gradient",
        {read(of<a, b, c, d>), floats(read(of<a, b, c>)), read(of<a, b, c, d>), read(sinks, of<b>),
         floats(update(sinks, times<2, b>))}),
    row(gate, "gate", {read(of<a>), read(of<a>), made(of<a>)}, {.flat = true}),
    row(gate_gradient, "gate_gradient", {read(of<a>), read(of<a>), read(of<a>), made(of<a>), made(of<a>)},
        {.flat = true}),
    row(convolve, "convolve", {read(of<a, b>), read(taps), read(rows_before), made(of<a, b>)}),
    row(convolve_gradient, "convolve_gradient",
        {read(of<a, b>), read(taps), read(rows_before), read(of<a, b>), read(rows_after), floats(update(taps)),
         made(of<a, b>), made(rows_before)}),
    row(last_rows, "last_rows", {read(of<a, b>, last_rows_of), made(last_rows_of)}),
    row(scan, "scan",
        {read(scan_columns), read(of<a, b, c>), read(scan_scalars), made(scan_results),
         floats(update(scan_kept, scan_kept))},
        {.scan = true}),
    row(scan_gradient, "scan_gradient",
        {read(scan_columns), read(scan_scalars), floats(read(scan_kept)), read(scan_results),
         floats(update(scan_scalars)), made(scan_columns), made(of<a, b, c>),
         floats(update(scan_scratch, scan_scratch))},
        {.scan = true}),
    row(copy_state, "copy_state", {floats(read(copied<b>, of<a>)), floats(update(copied<c>, of<a>))}, {.flat = true}),
    row(gated_norm, "gated_norm",
        {read(of<a, b>), read(of<a, b>), read(of<b>), made(of<a, b>), floats(made(of<a, c>))}),
    row(gated_norm_gradient, "gated_norm_gradient",
        {read(of<a, b>), read(of<a, b>), floats(read(of<a, c>)), read(of<b>), read(of<a, b>), floats(update(of<b>)),
         made(of<a, b>), made(of<a, b>)}),
    row(momentum, "momentum", {kGradient, floats(update(of<a>))}, {.flat = true, .optimizer = true, .replicas = e}),
    row(over_frobenius, "over_frobenius", {floats(update(of<a>, times<3, a>))}, {.flat = true}),
    row(newton_schulz, "newton_schulz", {floats(read(of<a>)), floats(update(of<a>))}, {.flat = true}),
    row(muon, "muon", {kGradient, kParameters, floats(update(master))}, {.flat = true, .master = true, .replicas = e}),
};

constexpr bool complete() {
  for (std::size_t i = 0; i < std::size(kKernels); ++i)
    if (kKernels[i].kind != static_cast<KernelKind>(i)) return false;
  return std::size(kKernels) == kKernelKinds;
}
static_assert(complete(), "a row for every kernel, in the order of KernelKind");

}  // namespace
}  // namespace table

const KernelInfo& info(KernelKind kind) { return table::kKernels[static_cast<std::size_t>(kind)]; }

bool adds_loss(KernelKind kind) {
  const auto& operands = info(kind).operands;
  return std::any_of(operands.begin(), operands.end(),
                     [](const auto& o) { return o.holds == KernelOperand::Holds::loss; });
}

std::size_t operands_read(KernelKind kind) {
  const auto& operands = info(kind).operands;
  const auto last = std::find_if(operands.begin(), operands.end(),
                                 [](const auto& o) { return !o.extent || o.access != KernelOperand::Access::read; });
  return static_cast<std::size_t>(last - operands.begin());
}

std::optional<std::size_t> slots_operand(KernelKind kind) {
  const auto& operands = info(kind).operands;
  for (std::size_t i = 0; i < operands_read(kind); ++i)
    if (operands[i].holds == KernelOperand::Holds::slots) return i;
  return std::nullopt;
}

OperandElements operand_elements(const Kernel& kernel, std::int64_t data) {
  OperandElements result;
  for (const KernelOperand& operand : info(kernel.kind).operands) {
    const std::int64_t extent = operand.extent ? operand.extent(kernel, data) : -1;
    if (extent < 0) break;
    result.elements[result.count++] = extent;
  }
  return result;
}

Precision operand_precision(const Kernel& kernel, std::size_t operand) {
  return info(kernel.kind).operands[operand].holds == KernelOperand::Holds::values ? kernel.precision : Precision::fp32;
}

Axis axis_of(Replicas replicas) {
  switch (replicas) {
    case Replicas::data:
      return Axis::data;
    case Replicas::expert_data:
      return Axis::expert_data;
    case Replicas::shard:
      return Axis::shard;
  }
  return Axis::data;
}
std::int64_t dim_of(Axis replicas) {
  return static_cast<std::int64_t>(replicas == Axis::expert_data ? Replicas::expert_data
                                   : replicas == Axis::shard     ? Replicas::shard
                                                                 : Replicas::data);
}
Axis replicas(const Kernel& kernel) {
  const std::size_t dim = traits(kernel.kind).replicas;
  return dim > 0 ? axis_of(static_cast<Replicas>(kernel.dims[dim])) : Axis::data;
}

bool uses_data(const Kernel& kernel) {
  if (uses_data(kernel.kind)) return true;
  if (traits(kernel.kind).attention != AttentionPass::none) return sight_of(kernel.dims[4]).documents > 0;
  const bool positions = kernel.kind == KernelKind::add_positions || kernel.kind == KernelKind::positions_gradient;
  return positions && kernel.dims[6] != 0;
}

TwoFactors newton_schulz_factors(const Kernel& kernel) {
  const auto& [a, b, c] = kQuintic;
  if (static_cast<NewtonSchulz>(kernel.dims[1]) == NewtonSchulz::inner) return {b, c};
  if (kernel.dims[2] == 0) return {1, a};
  const double scale = kMuonScale * std::sqrt(double(kernel.dims[2]));
  return {float(scale), float(scale * double(a))};
}

bool keeps_master(const Kernel& optimizer) {
  if (optimizer.precision == Precision::fp32 || !traits(optimizer.kind).master) return false;
  return optimizer.kind != KernelKind::sgd || static_cast<Master>(optimizer.dims[3]) == Master::kept;
}

Bytes Kernel::traffic() const {
  Bytes all;
  const OperandElements present = operand_elements(*this, 0);
  for (std::size_t i = 0; i < present.count; ++i) {
    const KernelOperand& operand = info(kind).operands[i];
    const std::int64_t passes = operand.access == KernelOperand::Access::update ? 2 : 1;
    const std::int64_t moved = operand.moved ? operand.moved(*this, 0) : passes * present.elements[i];
    all += Bytes(bytes_per_element(operand_precision(*this, i)) * moved);
  }
  return all;
}

LinearLayer linear_layer(const Kernel& product) {
  const auto& d = product.dims;
  if (traits(product.kind).of_experts) return {d[2], d[3], d[4], d[1], d[0] * d[1]};
  return {d[0], d[1], d[2]};
}

std::optional<Gemm> gemm_of(const Kernel& kernel) {
  const LinearLayer of = linear_layer(kernel);
  switch (traits(kernel.kind).linear) {
    case LinearProduct::forward:
      return Gemm{of.rows, of.outputs, of.inputs, of.products, kernel.precision, false};
    case LinearProduct::input_gradient:
      return Gemm{of.rows, of.inputs, of.outputs, of.products, kernel.precision, false};
    case LinearProduct::weight_gradient:
      return Gemm{of.outputs, of.inputs, of.rows, of.products, kernel.precision, true};
    case LinearProduct::none:
      break;
  }
  return std::nullopt;
}

Flops Kernel::flops() const {
  const KernelTraits& is = traits(kind);
  if (is.linear != LinearProduct::none) {
    const LinearLayer of = linear_layer(*this);
    return Flops(2. * double(of.products) * double(of.rows) * double(of.outputs) * double(of.inputs));
  }
  if (is.attention == AttentionPass::none) return Flops(0);
  // Two batched products forward, s x s x d each; five backward, of which one repeats the scores.
  const double products = is.attention == AttentionPass::forward ? 4 : 10,
               blocks = dims[7] == kAllBlocks ? double(dims[6]) : 1;
  FusedAttention seen = fused_attention(*this);
  seen.causal = false;
  const double share = seen.scores() / seen.all_scores();
  return Flops(products * double(dims[0]) * double(dims[1]) * double(dims[2]) * double(dims[2]) * double(dims[3]) *
               blocks * share);
}

ScanShape scan_shape(const Kernel& scan) {
  const auto [batch, positions, heads, groups, states, depth, ranks, piece] = scan.dims;
  return {batch, positions, heads, groups, states, depth, std::max<std::int64_t>(ranks, 1)};
}

double scan_products(const Kernel& scan) {
  const ScanShape of = scan_shape(scan);
  const double half = double(of.chunk()) / 2, heads = double(of.heads), depth = double(of.depth);
  return double(of.tokens()) *
         (half * (double(of.groups * of.states) + heads * depth) + 2 * heads * depth * double(of.states));
}

std::int64_t kv_heads(const Kernel& attention) { return attention.dims[5] > 0 ? attention.dims[5] : attention.dims[1]; }

namespace {

// Pairs of the first n queries with the keys of their own chunk up to themselves.
std::int64_t pairs_in_chunks(std::int64_t n, std::int64_t chunk) {
  const std::int64_t whole = n / chunk, rest = n % chunk;
  return (whole * chunk * (chunk + 1) + rest * (rest + 1)) / 2;
}

// Keys that a query sees on average, rounded up, of the block that is `step` of s positions before its own. A chunk
// leaves at most what a window of as many does.
std::int64_t seen_of_earlier(const Sight& sight, std::int64_t s, std::int64_t step) {
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < s; ++i) pairs += std::clamp<std::int64_t>(sight.keys - 1 - (step - 1) * s - i, 0, s);
  return std::max<std::int64_t>(1, (pairs + s - 1) / s);
}

// The same of chunks of whole sequences, on the rank of the c in order that sees the most.
std::int64_t seen_in_order(std::int64_t chunk, std::int64_t s, std::int64_t c) {
  std::int64_t most = 1;
  for (std::int64_t rank = 0; rank < c; ++rank)
    most = std::max(most, pairs_in_chunks((rank + 1) * s, chunk) - pairs_in_chunks(rank * s, chunk));
  return (most + s - 1) / s;
}

}  // namespace

FusedAttention fused_attention(const Kernel& k) {
  const auto [b, heads, s, d, sees, kv, c, step] = k.dims;
  const Sight sight = sight_of(sees);
  // In order, the last rank sees all of the others' keys, and the step lasts as long as it does; balanced, each rank
  // sees half of them in every step.
  const bool half = sight.mask == Mask::causal_balanced || (sight.mask == Mask::causal && step == 0);
  const std::int64_t keys = step == kAllBlocks ? c * s : s;
  const bool backward = traits(k.kind).attention == AttentionPass::backward;
  FusedAttention shape{b, heads, s, keys, d, half, backward, 0, k.precision};
  shape.share = sight.share();
  if (sight.keys == 0) return shape;
  shape.seen = sight.keys, shape.chunked = sight.chunked && half;
  if (!half && step > 0) shape.seen = seen_of_earlier(sight, s, step);
  if (!half && step == kAllBlocks && sight.chunked) shape.seen = seen_in_order(sight.keys, s, c);
  return shape;
}

const char* name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all-reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce-scatter";
    case CollectiveKind::all_gather:
      return "all-gather";
    case CollectiveKind::all_to_all:
      return "all-to-all";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::shift:
      return "shift";
  }
  return "?";
}

}  // namespace rehearsal
