#include "base/tensor.hpp"

namespace rehearsal {

const char* name(TensorKind kind) {
  switch (kind) {
    case TensorKind::token_table:
      return "token_table";
    case TensorKind::position_table:
      return "position_table";
    case TensorKind::norm1_gain:
      return "norm1_gain";
    case TensorKind::norm1_bias:
      return "norm1_bias";
    case TensorKind::qkv_weight:
      return "qkv_weight";
    case TensorKind::qv_bias:
      return "qv_bias";
    case TensorKind::out_weight:
      return "out_weight";
    case TensorKind::out_bias:
      return "out_bias";
    case TensorKind::norm2_gain:
      return "norm2_gain";
    case TensorKind::norm2_bias:
      return "norm2_bias";
    case TensorKind::up_weight:
      return "up_weight";
    case TensorKind::up_bias:
      return "up_bias";
    case TensorKind::down_weight:
      return "down_weight";
    case TensorKind::down_bias:
      return "down_bias";
    case TensorKind::norm_gain:
      return "norm_gain";
    case TensorKind::norm_bias:
      return "norm_bias";
    case TensorKind::head_weight:
      return "head_weight";
    case TensorKind::qkv_bias:
      return "qkv_bias";
    case TensorKind::query_weight:
      return "query_weight";
    case TensorKind::key_weight:
      return "key_weight";
    case TensorKind::value_weight:
      return "value_weight";
    case TensorKind::gate_up_weight:
      return "gate_up_weight";
    case TensorKind::router_weight:
      return "router_weight";
    case TensorKind::expert_gate_up_weight:
      return "expert_gate_up_weight";
    case TensorKind::expert_down_weight:
      return "expert_down_weight";
    case TensorKind::shared_gate_up_weight:
      return "shared_gate_up_weight";
    case TensorKind::shared_down_weight:
      return "shared_down_weight";
    case TensorKind::expert_up_weight:
      return "expert_up_weight";
    case TensorKind::query_down_weight:
      return "query_down_weight";
    case TensorKind::query_up_weight:
      return "query_up_weight";
    case TensorKind::latent_down_weight:
      return "latent_down_weight";
    case TensorKind::latent_up_weight:
      return "latent_up_weight";
    case TensorKind::latent_gain:
      return "latent_gain";
    case TensorKind::joining_weight:
      return "joining_weight";
    case TensorKind::output_gate_weight:
      return "output_gate_weight";
    case TensorKind::sinks:
      return "sinks";
    case TensorKind::head_gain:
      return "head_gain";
    case TensorKind::index_weight:
      return "index_weight";
    case TensorKind::mixer_in_weight:
      return "mixer_in_weight";
    case TensorKind::convolution:
      return "convolution";
    case TensorKind::head_scalars:
      return "head_scalars";
    case TensorKind::latent_expert_weight:
      return "latent_expert_weight";
    case TensorKind::mixer_value_weight:
      return "mixer_value_weight";
    case TensorKind::mixer_state_weight:
      return "mixer_state_weight";
    case TensorKind::mixer_gate_weight:
      return "mixer_gate_weight";
    case TensorKind::mixer_step_weight:
      return "mixer_step_weight";
    case TensorKind::value_convolution:
      return "value_convolution";
    case TensorKind::state_convolution:
      return "state_convolution";
  }
  return "?";
}

bool is_of_experts(TensorKind kind) {
  return kind == TensorKind::expert_gate_up_weight || kind == TensorKind::expert_up_weight ||
         kind == TensorKind::expert_down_weight;
}
bool is_of_layer(TensorKind kind) {
  switch (kind) {
    case TensorKind::token_table:
    case TensorKind::position_table:
    case TensorKind::norm_gain:
    case TensorKind::norm_bias:
    case TensorKind::head_weight:
      return false;
    default:
      return true;
  }
}

Axis replicas_of(const std::vector<Tensor>& segment) {
  return !segment.empty() && is_of_experts(segment.front().kind) ? Axis::expert_data : Axis::data;
}

}  // namespace rehearsal
