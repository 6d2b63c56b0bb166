#include "base/kernels.hpp"

namespace rehearsal {
namespace {

bool works_on_shards(KernelKind kind) {
  switch (kind) {
    case KernelKind::add_own_shard:
    case KernelKind::sgd:
    case KernelKind::adamw:
    case KernelKind::adamw_keep:
    case KernelKind::adamw_rollback:
      return true;
    default:
      return false;
  }
}

}  // namespace

const char* name(KernelKind kind) {
  switch (kind) {
    case KernelKind::load_rows:
      return "load_rows";
    case KernelKind::embed:
      return "embed";
    case KernelKind::add_positions:
      return "add_positions";
    case KernelKind::layer_norm:
      return "layer_norm";
    case KernelKind::linear:
      return "linear";
    case KernelKind::add_bias:
      return "add_bias";
    case KernelKind::gelu:
      return "gelu";
    case KernelKind::attention:
      return "attention";
    case KernelKind::add_residual:
      return "add_residual";
    case KernelKind::cross_entropy_local:
      return "cross_entropy_local";
    case KernelKind::cross_entropy:
      return "cross_entropy";
    case KernelKind::squared_error:
      return "squared_error";
    case KernelKind::cross_entropy_gradient:
      return "cross_entropy_gradient";
    case KernelKind::squared_error_gradient:
      return "squared_error_gradient";
    case KernelKind::linear_input_gradient:
      return "linear_input_gradient";
    case KernelKind::bias_gradient:
      return "bias_gradient";
    case KernelKind::layer_norm_gradient:
      return "layer_norm_gradient";
    case KernelKind::gelu_gradient:
      return "gelu_gradient";
    case KernelKind::attention_gradient:
      return "attention_gradient";
    case KernelKind::add:
      return "add";
    case KernelKind::linear_weight_gradient:
      return "linear_weight_gradient";
    case KernelKind::embed_gradient:
      return "embed_gradient";
    case KernelKind::positions_gradient:
      return "positions_gradient";
    case KernelKind::clear:
      return "clear";
    case KernelKind::copy:
      return "copy";
    case KernelKind::add_own_shard:
      return "add_own_shard";
    case KernelKind::sgd:
      return "sgd";
    case KernelKind::adamw:
      return "adamw";
    case KernelKind::adamw_keep:
      return "adamw_keep";
    case KernelKind::adamw_rollback:
      return "adamw_rollback";
    case KernelKind::rms_norm:
      return "rms_norm";
    case KernelKind::rms_norm_gradient:
      return "rms_norm_gradient";
    case KernelKind::rotary:
      return "rotary";
    case KernelKind::rotary_gradient:
      return "rotary_gradient";
    case KernelKind::swiglu:
      return "swiglu";
    case KernelKind::swiglu_gradient:
      return "swiglu_gradient";
    case KernelKind::route:
      return "route";
    case KernelKind::route_gradient:
      return "route_gradient";
    case KernelKind::dispatch_rows:
      return "dispatch_rows";
    case KernelKind::dispatch_rows_gradient:
      return "dispatch_rows_gradient";
    case KernelKind::expert_linear:
      return "expert_linear";
    case KernelKind::expert_linear_input_gradient:
      return "expert_linear_input_gradient";
    case KernelKind::expert_linear_weight_gradient:
      return "expert_linear_weight_gradient";
    case KernelKind::combine_rows:
      return "combine_rows";
    case KernelKind::combine_rows_gradient:
      return "combine_rows_gradient";
    case KernelKind::attention_part:
      return "attention_part";
    case KernelKind::attention_part_gradient:
      return "attention_part_gradient";
    case KernelKind::take_columns:
      return "take_columns";
    case KernelKind::put_columns:
      return "put_columns";
    case KernelKind::cut_columns:
      return "cut_columns";
    case KernelKind::join_columns:
      return "join_columns";
    case KernelKind::join_rows:
      return "join_rows";
    case KernelKind::cut_rows:
      return "cut_rows";
    case KernelKind::own_rows:
      return "own_rows";
    case KernelKind::adalomo:
      return "adalomo";
  }
  return "?";
}

Precision operand_precision(const Kernel& kernel, std::size_t operand) {
  const auto fp32_from = [&](std::size_t first) { return operand >= first ? Precision::fp32 : kernel.precision; };
  switch (kernel.kind) {
    case KernelKind::layer_norm:
      return fp32_from(4);
    case KernelKind::attention:
    case KernelKind::linear_weight_gradient:
    case KernelKind::expert_linear_weight_gradient:
      return fp32_from(2);
    case KernelKind::cross_entropy_local:
    case KernelKind::squared_error:
    case KernelKind::bias_gradient:
    case KernelKind::embed_gradient:
    case KernelKind::positions_gradient:
      return fp32_from(1);
    case KernelKind::cross_entropy:
    case KernelKind::clear:
      return Precision::fp32;
    case KernelKind::cross_entropy_gradient:
      return operand == 0 ? Precision::fp32 : kernel.precision;
    case KernelKind::layer_norm_gradient:  // stats, dgain, dbias
      return operand == 1 || operand == 3 || operand == 4 ? Precision::fp32 : kernel.precision;
    case KernelKind::attention_gradient:  // lse
      return operand == 2 ? Precision::fp32 : kernel.precision;
    case KernelKind::add_own_shard:  // gradients
      return Precision::fp32;
    case KernelKind::sgd:
    case KernelKind::adamw:
    case KernelKind::adamw_keep:
    case KernelKind::adamw_rollback:
    case KernelKind::adalomo:
      return operand == 1 ? kernel.precision : Precision::fp32;
    case KernelKind::rms_norm:  // stats
      return fp32_from(3);
    case KernelKind::route:  // weights, slots, probabilities
      return fp32_from(1);
    case KernelKind::combine_rows_gradient:  // slots, weights, dweights
      return operand < 2 || operand == 4 ? kernel.precision : Precision::fp32;
    case KernelKind::route_gradient:
      return operand < 3 ? Precision::fp32 : kernel.precision;
    case KernelKind::attention_part:  // sums, lse
      return fp32_from(2);
    case KernelKind::attention_part_gradient:  // lse, dq, dblock
      return operand == 3 || operand > 4 ? Precision::fp32 : kernel.precision;
    case KernelKind::put_columns:
      return operand == 0 ? Precision::fp32 : kernel.precision;
    case KernelKind::dispatch_rows:
    case KernelKind::dispatch_rows_gradient:
      return operand == 1 ? Precision::fp32 : kernel.precision;
    case KernelKind::combine_rows:
      return operand == 1 || operand == 2 ? Precision::fp32 : kernel.precision;
    case KernelKind::rms_norm_gradient:  // stats, dgain
      return operand == 1 || operand == 3 ? Precision::fp32 : kernel.precision;
    default:
      return kernel.precision;
  }
}

Flops Kernel::flops() const {
  const auto d = [&](std::size_t i) { return double(dims[i]); };
  switch (kind) {
    case KernelKind::linear:
    case KernelKind::linear_input_gradient:
    case KernelKind::linear_weight_gradient:
      return Flops(2 * d(0) * d(1) * d(2));
    case KernelKind::expert_linear:
    case KernelKind::expert_linear_input_gradient:
    case KernelKind::expert_linear_weight_gradient:
      return Flops(2 * d(0) * d(1) * d(2) * d(3) * d(4));
    case KernelKind::attention_part:
    case KernelKind::attention_part_gradient: {
      const double products = kind == KernelKind::attention_part ? 4 : 10, blocks = dims[7] == kAllBlocks ? d(6) : 1;
      return Flops(products * d(0) * d(1) * d(2) * d(2) * d(3) * blocks);
    }
    // Two batched products forward, s x s x d each; five backward, of which one repeats the scores.
    case KernelKind::attention:
      return Flops(4 * d(0) * d(1) * d(2) * d(2) * d(3));
    case KernelKind::attention_gradient:
      return Flops(10 * d(0) * d(1) * d(2) * d(2) * d(3));
    default:
      return Flops(0);
  }
}

std::int64_t kv_heads(const Kernel& attention) { return attention.dims[5] > 0 ? attention.dims[5] : attention.dims[1]; }

FusedAttention fused_attention(const Kernel& k) {
  const auto [b, heads, s, d, mask, kv, c, step] = k.dims;
  switch (k.kind) {
    case KernelKind::attention:
    case KernelKind::attention_gradient:
      return {b, heads, s, s, d, mask != 0, k.kind == KernelKind::attention_gradient, 0, k.precision};
    default: {
      // In order, the last rank sees all of the others' keys, and the step lasts as long as it does; balanced, each
      // rank sees half of them in every step.
      const bool half =
          static_cast<Mask>(mask) == Mask::causal_balanced || (static_cast<Mask>(mask) == Mask::causal && step == 0);
      const std::int64_t keys = step == kAllBlocks ? c * s : s;
      return {b, heads, s, keys, d, half, k.kind == KernelKind::attention_part_gradient, 0, k.precision};
    }
  }
}

Axis replicas(const Kernel& kernel) {
  const std::int64_t of = kernel.dims[kernel.kind == KernelKind::add_own_shard ? 1 : 4];
  return works_on_shards(kernel.kind) && static_cast<Replicas>(of) == Replicas::expert_data ? Axis::expert_data
                                                                                            : Axis::data;
}

std::optional<std::size_t> slots_operand(KernelKind kind) {
  switch (kind) {
    case KernelKind::route_gradient:
    case KernelKind::dispatch_rows:
    case KernelKind::dispatch_rows_gradient:
    case KernelKind::combine_rows:
      return 1;
    case KernelKind::combine_rows_gradient:
      return 2;
    default:
      return std::nullopt;
  }
}

bool keeps_master(const Kernel& optimizer) {
  if (optimizer.precision == Precision::fp32) return false;
  switch (optimizer.kind) {
    case KernelKind::sgd:
      return static_cast<Master>(optimizer.dims[3]) == Master::kept;
    case KernelKind::adamw:
    case KernelKind::adamw_keep:
    case KernelKind::adamw_rollback:
      return true;
    default:
      return false;
  }
}

Bytes Kernel::traffic() const {
  const std::int64_t a = dims[0], b = dims[1], c = dims[2];
  // Elements in the precision of the kernel, and those that stay in fp32 (operand_precision()).
  const auto elements = [width = bytes_per_element(precision)](std::int64_t n, std::int64_t floats = 0) {
    return Bytes(width * n + bytes_per_element(Precision::fp32) * floats);
  };
  switch (kind) {
    case KernelKind::load_rows:
      return elements(a * b);
    case KernelKind::embed:
      return elements(2 * a * b);
    case KernelKind::add_positions:
      return elements(3 * a * b);
    case KernelKind::embed_gradient:
    case KernelKind::positions_gradient:
      return elements(a * b, 2 * a * b);
    case KernelKind::layer_norm:
      return elements(2 * a * b + 2 * b, 2 * a);
    case KernelKind::linear:
    case KernelKind::linear_input_gradient:
      return elements(a * b + b * c + a * c);
    case KernelKind::linear_weight_gradient:
      return elements(a * b + a * c, 2 * b * c);
    case KernelKind::add_bias:
      return elements(2 * a * b + b);
    case KernelKind::gelu:
    case KernelKind::copy:
      return elements(2 * a);
    case KernelKind::attention:  // Q, out; K, V
      return elements(2 * a * (b + kv_heads(*this)) * c * dims[3], a * b * c);
    case KernelKind::attention_gradient:  // and their gradients
      return elements(4 * a * (b + kv_heads(*this)) * c * dims[3], a * b * c);
    case KernelKind::add_residual:
      return elements(3 * a * b + b);
    case KernelKind::cross_entropy_local:
      return elements(a * b);
    case KernelKind::cross_entropy:
      return elements(0, 3 * a * dims[3] + a);
    case KernelKind::squared_error:
      return elements(a * b);
    case KernelKind::cross_entropy_gradient:
      return elements(2 * a * b);
    case KernelKind::squared_error_gradient:
      return elements(2 * a * b);
    case KernelKind::bias_gradient:
      return elements(a * b, 2 * b);
    case KernelKind::layer_norm_gradient:
      return elements(3 * a * b + b, 2 * a + 4 * b);
    case KernelKind::gelu_gradient:
    case KernelKind::add:
      return elements(3 * a);
    case KernelKind::add_own_shard:
      return elements(0, 3 * a);
    case KernelKind::clear:
      return elements(0, a);
    case KernelKind::sgd:  // gradient and parameters read and written; with a master copy the latter once more written
      if (static_cast<Clip>(dims[5]) == Clip::add) return elements(0, 2 * a);
      return keeps_master(*this) ? elements(a, 4 * a) : elements(2 * a, 2 * a);
    case KernelKind::adamw:
    case KernelKind::adamw_keep:
    case KernelKind::adamw_rollback:
      return keeps_master(*this) ? elements(a, 8 * a) : elements(2 * a, 6 * a);
    case KernelKind::rms_norm:
      return elements(2 * a * b + b, a);
    case KernelKind::rms_norm_gradient:
      return elements(3 * a * b + b, a + 2 * b);
    case KernelKind::rotary:
    case KernelKind::rotary_gradient:
      return elements(2 * a * c * dims[3]);
    case KernelKind::swiglu:
      return elements(3 * a * b);
    case KernelKind::swiglu_gradient:
      return elements(5 * a * b);
    case KernelKind::route:
    case KernelKind::route_gradient:
      return elements(a * b, a * b + 2 * a * c);
    case KernelKind::dispatch_rows:
      return elements(a * b + dims[3] * dims[4] * b, a * c);
    case KernelKind::dispatch_rows_gradient:
      return elements(a * b + a * c * b, a * c);
    case KernelKind::combine_rows:
      return elements(a * b + a * c * b, 2 * a * c);
    case KernelKind::combine_rows_gradient:
      return elements(a * b + a * c * b + dims[3] * dims[4] * b, 3 * a * c);
    case KernelKind::expert_linear:
    case KernelKind::expert_linear_input_gradient:
      return elements(a * b * c * (dims[3] + dims[4]) + b * dims[3] * dims[4]);
    case KernelKind::expert_linear_weight_gradient:
      return elements(a * b * c * (dims[3] + dims[4]), 2 * b * dims[3] * dims[4]);
    case KernelKind::attention_part:
    case KernelKind::attention_part_gradient: {
      const std::int64_t head = a * c * dims[3], q = head * b, kv = 2 * head * kv_heads(*this);
      const std::int64_t block = kv * (dims[7] == kAllBlocks ? dims[6] : 1), rows = 2 * a * b * c;
      if (kind == KernelKind::attention_part) return elements(q + block, 2 * q + rows);
      return elements(3 * q + block, 2 * (q + block) + rows);
    }
    case KernelKind::take_columns:
      return elements(2 * a * dims[3]);
    case KernelKind::put_columns:
      return elements(a * dims[3], a * dims[3]);
    case KernelKind::cut_columns:
    case KernelKind::join_columns:
      return elements(2 * a * (c + 2 * dims[3]));
    case KernelKind::join_rows:
    case KernelKind::cut_rows:
      return elements(2 * a * b * c * dims[3]);
    case KernelKind::own_rows:
      return elements(2 * a * b);
    case KernelKind::adalomo:  // moments; the norm of the update; the update itself, and its gradient cleared
      return elements(3 * a * b, 5 * a * b);
  }
  return Bytes();
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
