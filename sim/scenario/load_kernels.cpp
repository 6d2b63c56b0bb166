// Kernels of GPU libraries are only priced; native kernels are also performed. Each kind supports what the other does
// not; the error for an unsupported request names the alternative.
#include <fmt/format.h>

#include <algorithm>

#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// Whether the file itself gives root.a.b, rather than leaving it to a profile.
bool given(const Node& root, std::string_view part, std::string_view key) {
  const Node* node = root.find(part);
  return node && node->kind == Node::Kind::map && node->find(key);
}

// Whether it sets how ZeRO-3 gathers parameters.
bool fsdp(const models::Training& training) {
  return training.prefetch || training.reshard_after_forward || training.reshard_over > 0;
}

void check_own_experts(Context& context, const Node& root, const models::Framework& framework,
                       const models::Transformer& model, const models::ExpertSettings& experts) {
  auto& problems = context.problems;
  const auto refuse = [&](std::string_view path, bool wrong, const std::string& message) {
    if (wrong) problems.error(place_of(root, path), fmt::format("framework '{}' {}", framework.name, message));
  };
  refuse("model.mla", model.mla.has_value(), "has no kernels for latent attention; leave 'mla' out");
  refuse("model.mtp_layers", model.mtp_layers > 0, "does not support multi-token prediction; leave 'mtp_layers' out");
  refuse("experts.skew", experts.skew.kind != models::Skew::Kind::uniform,
         "routes tokens by its own router, not by given loads; leave 'skew' out");
  refuse("experts.balance", experts.balance != models::ExpertBalance::none, "never moves experts; leave 'balance' out");
  refuse("experts.limit_nodes", experts.limit_nodes.has_value(),
         "may send a token to any node; leave 'limit_nodes' out");
  refuse("experts.dispatch", experts.dispatch != models::Dispatch::all_to_all,
         "dispatches tokens in a single all-to-all; leave 'dispatch' out");
}

void check_own(Context& context, const Node& root, const std::optional<models::Transformer>& model,
               const TrainingChoice& choice, const models::Framework& framework, const ParallelismChoice& parallelism,
               const models::ExpertSettings& experts) {
  auto& problems = context.problems;
  const auto& training = choice.training;
  const auto refuse = [&](std::string_view path, bool wrong, const std::string& message) {
    if (wrong) problems.error(place_of(root, path), fmt::format("framework '{}' {}", framework.name, message));
  };
  refuse("training.precision", training.precision != Precision::fp32 && training.precision != Precision::bf16,
         fmt::format("computes in fp32 and bf16, not in {}; set 'training.precision' to one of them",
                     name(training.precision)));
  refuse("training.gradient_precision", training.gradient_precision != Precision::fp32,
         "keeps gradients in fp32; leave 'gradient_precision' out");
  refuse("training.attention", training.attention != models::AttentionKind::flash,
         "never stores attention scores; set 'training.attention' to flash");
  refuse("training.moments", training.moments != models::Moments::fp32 || !training.master_copy,
         "keeps moments and a master copy in fp32; leave 'moments' and 'master_copy' out");
  refuse("training.overlap.gradients", framework.gradient_overlap != models::GradientOverlap::never,
         "reduces gradients after the backward pass; leave 'overlap.gradients' out or set it to false");
  refuse("training.overlap.parameters", training.overlap_gathers.value_or(false),
         "gathers parameters before they are needed; leave 'overlap.parameters' out or set it to false");
  refuse("training.bucket", training.bucket.has_value(),
         "reduces gradients one flat array at a time; leave 'bucket' out");
  refuse("training.buffers", training.buffers != models::Buffers::framework,
         "reduces gradients in place; leave 'buffers' out");
  refuse("training.fsdp", fsdp(training), "gathers parameters when they are needed; leave 'fsdp' out");
  refuse("parallelism.secondary_shard", parallelism.value.secondary_shard > 0,
         "shards parameters over all replicas; leave 'secondary_shard' out");
  refuse("training.quantised_gathers", training.quantised_gathers,
         "does not quantise the parameters that it gathers; leave 'quantised_gathers' out");
  refuse("training.quantised_reductions", training.quantised_reductions,
         "does not quantise the gradients that it reduces; leave 'quantised_reductions' out");
  refuse("training.recompute", !training.recomputes_alike(),
         "recomputes all layers or none; leave 'every' and 'layers' out of 'recompute'");
  if (const auto kernels_refuse = training.optimizer->kernels_refuse) {
    const auto& p = parallelism.value;
    const auto why = kernels_refuse({training, true, model && model->is_moe(), std::max(p.tensor, p.expert_tensor)});
    refuse("training.optimizer", !why.empty(), why);
  }
  refuse("training.kernels", training.kernels != models::Kernels::fused,
         "has kernels of its own; leave 'kernels' out or set it to fused");
  refuse("training.overlap.tensor", framework.async_tensor,
         "does not overlap tensor-parallel communication with its matrix products; leave 'overlap.tensor' out or set "
         "it to false");
  refuse(
      "training.optimizer_sync", choice.optimizer_sync.post_validation && !training.optimizer->takes_back,
      fmt::format("cannot roll back a step of {}; use adamw, or 'optimizer_sync: barrier'", training.optimizer->name));
  refuse(
      "parallelism.sequence", parallelism.value.sequence && model && model->family == models::Family::mlp,
      "has no sequence parallelism for family 'mlp', which has no sequence; leave 'sequence' out or set it to false");
  const std::pair<std::string_view, bool> knobs[] = {{"dropout", framework.dropout},
                                                     {"compiled", framework.compiled},
                                                     {"sharded_sends", framework.sharded_sends},
                                                     {"shared_expert_overlap", framework.shared_expert_overlap},
                                                     {"host_time_per_kernel", framework.host_seconds_per_kernel > 0}};
  for (const auto& [knob, set] : knobs)
    refuse(fmt::format("framework.{}", knob), set,
           fmt::format("has 'native_kernels', which do not support '{}'; leave it out", knob));
  if (!model) return;
  const bool llama = model->family == models::Family::llama, moe = model->family == models::Family::moe;
  if (moe) check_own_experts(context, root, framework, *model, experts);
  refuse("model.learned_positions", model->is_gpt() && !model->learned_positions,
         "always adds learned positions in family gpt and does not support ALiBi; leave 'learned_positions' out");
  refuse("model.embedding_norm", model->embedding_norm, "has no norm after the embedding; leave 'embedding_norm' out");
  refuse("model.ffn_kind", moe && model->ffn_kind != models::FfnKind::swiglu,
         "supports experts with swiglu only; leave 'ffn_kind' out");
  refuse("model.ffn_kind", !moe && model->ffn_kind != (llama ? models::FfnKind::swiglu : models::FfnKind::gelu),
         llama ? "supports family 'llama' with swiglu only; leave 'ffn_kind' out"
               : "supports 'swiglu' in family 'llama' only; set 'ffn_kind' to gelu");
}

// The same rules as the switch of Megatron-Core (transformer_config.py).
void check_shared_experts(Context& context, const Node& root, const models::Transformer& model,
                          const models::Training& training, const models::Framework& framework) {
  if (!framework.shared_expert_overlap) return;
  const auto refuse = [&](bool wrong, const std::string& why) {
    if (wrong) context.problems.error(place_of(root, "framework.shared_expert_overlap"), why);
  };
  refuse(model.shared_ffn == 0,
         fmt::format(
             "'shared_expert_overlap' hides all-to-alls behind shared experts, but model '{}' has none; leave it out",
             model.name));
  refuse(framework.dispatcher != models::Dispatcher::nccl,
         "'shared_expert_overlap' works only with NCCL's all-to-all; set 'dispatcher' to nccl, or leave it out");
  refuse(framework.expert_overlap,
         "'shared_expert_overlap' and 'expert_overlap' hide the same all-to-alls; leave one of them out");
  refuse(training.recompute == models::Recompute::selective &&
             training.recompute_modules.count(models::RecomputeModule::shared_experts) > 0,
         "'shared_expert_overlap' splits the shared experts in two, and 'shared_experts' in "
         "'training.recompute.modules' recomputes them as a whole; leave one of them out, or recompute 'moe'");
}

}  // namespace

void check_kernels(Context& context, const Node& root, const std::optional<models::Transformer>& model,
                   const TrainingChoice& training, const models::Framework& framework,
                   const ParallelismChoice& parallelism, const models::ExpertSettings& experts) {
  auto& problems = context.problems;
  check_kept(context, root, model, training.training, framework, parallelism.value.tensor);
  if (model && !framework.native_kernels) check_shared_experts(context, root, *model, training.training, framework);
  if (framework.native_kernels) return check_own(context, root, model, training, framework, parallelism, experts);
  if (training.training.kernels == models::Kernels::unfused && framework.compiled)
    problems.error(place_of(root, "training.kernels"),
                   "'unfused' for 'kernels' contradicts 'compiled: true' in 'framework'; leave one of them out");
  if (training.overlap_tensor.value_or(false) && parallelism.value.tensor > 1 && !parallelism.value.sequence)
    problems.error(place_of(root, "training.overlap.tensor"),
                   "'tensor' needs 'sequence: true' in 'parallelism': an all-gather overlaps the GEMM that it feeds "
                   "and a reduce-scatter the one before it, but an all-reduce cannot be split like that");
  else if (framework.async_tensor && given(root, "framework", "async_tensor") &&
           !(parallelism.value.sequence && parallelism.value.tensor > 1))
    problems.warn(place_of(root, "framework.async_tensor"),
                  "'async_tensor' changes nothing without tensor parallelism and 'sequence: true' in 'parallelism'");
  constexpr std::string_view kWayOut = "set 'framework: native' (this program's own kernels)";
  const auto zero = parallelism.value.zero;
  if (zero == 3 && training.optimizer_sync.post_validation)
    problems.error(place_of(root, "training.optimizer_sync"),
                   "'post-validation' is not supported with 'zero' 3, where the next step gathers the parameters that "
                   "this one updates; use barrier, or zero 0 to 2");
  if (zero < 3 && fsdp(training.training))
    problems.warn(place_of(root, "training.fsdp"),
                  fmt::format("'fsdp' changes nothing without 'zero: 3' in 'parallelism' (zero is {})", zero));
  if ((zero == 0 || zero == 2) && training.training.overlap_gathers.value_or(false))
    problems.error(place_of(root, "training.overlap.parameters"),
                   fmt::format("'parameters' must be false with 'zero' {}; parameters are gathered during the next "
                               "forward pass with zero 1, and during every pass with zero 3",
                               zero));
  if (model && model->family == models::Family::mlp)
    problems.error(place_of(root, "model.family"),
                   fmt::format("family 'mlp' is not supported by framework '{}'; {}", framework.name, kWayOut));
}

}  // namespace rehearsal::scenario
