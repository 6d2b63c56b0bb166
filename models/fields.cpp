#include "models/fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/registry.hpp"

namespace rehearsal::models {

using namespace fields;

const Description& offload_fields() {
  using O = Offload;
  static constexpr auto tier = []<auto M>(const char* key, const char* help) {
    return choice<M>(key,
                     {{"device", Tier::device},
                      {"host", Tier::host},
                      {"nvme", Tier::nvme},
                      {"none", Tier::device},
                      {"cpu", Tier::host}},
                     kDefault, help);
  };
  static const Description all = describe<O>(
      {.groups = {{.key = "activations",
                   .help = "checkpoints of recomputed layers, or a share of the activations of other layers",
                   .short_for = "to"}}},
      tier.operator()<&O::optimizer>("optimizer", "master parameters and moments; the host then updates them"),
      field<&O::optimizer_fraction>("optimizer_fraction", number_above(0, 1), kDefault,
                                    "share of these states that is offloaded and updated on the host (Megatron-Core's "
                                    "--optimizer-offload-fraction); the GPU updates the rest first"),
      tier.operator()<&O::gradients>("gradients", "gradients, as soon as they are reduced"),
      tier.operator()<&O::parameters>("parameters",
                                      "the parameters that passes compute with; needs zero 3, or one GPU"),
      field<&O::activation_share>("activations.share", number(0, 1), std::nullopt,
                                  "share of the bytes a layer keeps for its backward, if it is not fully recomputed: "
                                  "copied out after its forward and back before its backward"),
      field<&O::activation_layers>("activations.layers", whole(1, 1e9), std::nullopt,
                                   "number of first layers of each stage whose activations are offloaded (all)"),
      choice<&O::activations>(
          "activations.to",
          {{"device", Tier::device},
           {"host", Tier::host},
           {"nvme", Tier::nvme},
           {"none", Tier::device},
           {"cpu", Tier::host}},
          {[](const O& o) { return o.activation_share || o.activation_layers ? Tier::host : Tier::device; },
           "host with `share` or `layers`, else device"},
          "where offloaded activations are kept"),
      field<&O::delayed_update>("delayed_update", boolean(), kDefault,
                                "the host updates during the next step, which computes with the old parameters"),
      field<&O::prefetch>(
          "prefetch", whole(0, 1000), kDefault,
          "layers, or tiles, by which copies to the GPU run ahead of gathers, and disk reads ahead of copies"),
      field<&O::tiles>("tiles", whole(1, 256), kDefault,
                       "column tiles per linear operator, which run in turn and load and free their own parameters; "
                       "with zero 3 or offloaded parameters"),
      choice<&O::one_owner>(
          "owner", {{"all", false}, {"one", true}}, kDefault,
          "who holds an offloaded parameter: every GPU a share (bandwidth-centric), or one GPU, which broadcasts it"));
  return all;
}

namespace {

std::string summaries() {
  std::string all;
  for (const auto& [name, o] : optimizers()) all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", name, o.summary);
  return all;
}

// "0.001 of adalomo, adamw, muon, else 0.1": a default that follows the optimizer.
std::string of_each(std::string (*says)(const Optimizer&)) {
  const auto otherwise = says({});
  std::map<std::string, std::vector<std::string>> with;
  for (const auto& [name, o] : optimizers())
    if (const auto said = says(o); said != otherwise) with[said].push_back(name);
  std::string all;
  for (const auto& [said, names] : with) all += fmt::format("{} of {}, ", said, fmt::join(names, ", "));
  return all + "else " + otherwise;
}

std::string clips(const Optimizer& o) { return o.clipping == GradientClipping::none ? "none" : "grouped"; }
std::string rate(const Optimizer& o) { return fmt::format("{}", o.learning_rate); }
std::string decay(const Optimizer& o) { return fmt::format("{}", o.weight_decay.value_or(0)); }

}  // namespace

const Description& training_fields() {
  using T = Training;
  constexpr double kMostOver = 1e6;
  static constexpr auto stored = []<auto M>(const char* key, const char* help) {
    return some<M>(key,
                   {{"latents", StoredValue::latents},
                    {"attention_out", StoredValue::attention_out},
                    {"dispatched", StoredValue::dispatched},
                    {"moe_act", StoredValue::moe_act},
                    {"mlp_act", StoredValue::mlp_act}},
                   help);
  };
  static const Description all = describe<T>(
      {.groups =
           {{.key = "recompute", .help = "which layers repeat their forward in the backward pass", .short_for = "mode"},
            {.key = "activation_storage",
             .help = "low-precision storage of values kept for the backward: latents of latent attention, attention "
                     "output, rows dispatched to experts, inputs of the activations of experts or other layers"},
            {.key = "lora", .help = "train low-rank adapters (LoRA) only", .short_for = "rank"},
            {.key = "overlap", .help = "communication that overlaps computation; overrides `framework`"},
            {.key = "fsdp", .help = "how ZeRO-3 gathers parameters"},
            {.key = "buffers",
             .help = "buffers in which gradients are fused before they are reduced (ZeRO-R)",
             .short_for = "kind"},
            {.key = "loss_scaling",
             .help = "for fp16: gradients are checked for infinities, and a step with any is skipped",
             .short_for = "mode"},
            {.key = "offload", .help = "what is offloaded from the GPU to its host or to the disks of its node"}}},
      choice<&T::precision>("precision",
                            {{"fp32", Precision::fp32},
                             {"fp16", Precision::fp16},
                             {"bf16", Precision::bf16},
                             {"fp8", Precision::fp8},
                             {"fp4", Precision::fp4}},
                            kDefault, "precision of the passes, which the GPU must support"),
      choice<&T::moments>("moments",
                          {{"fp32", Moments::fp32},
                           {"bf16", Moments::bf16},
                           {"int8", Moments::int8},
                           {"int8-2048", Moments::int8_2048}},
                          kDefault,
                          "precision of adamw's two moments; int8: with one scale per 256 values (torchao, "
                          "bitsandbytes since 0.45) or per 2048 (bitsandbytes before)"),
      field<&T::master_copy>("master_copy", boolean(), kDefault,
                             "16-bit weights have an fp32 copy, which the optimizer updates"),
      // fp16 training keeps fp16 gradients and unscales them; bf16 has too few digits for sums.
      choice<&T::gradient_precision>(
          "gradient_precision", {{"fp32", Precision::fp32}, {"fp16", Precision::fp16}, {"bf16", Precision::bf16}},
          {[](const T& t) { return t.precision == Precision::fp16 ? Precision::fp16 : Precision::fp32; },
           "fp16 for fp16, else fp32"},
          "precision in which gradients are accumulated"),
      plugin<&T::optimizer>("optimizer", optimizers(), summaries()),
      field<&T::optimizer_in_backward>(
          "optimizer_in_backward", boolean(), kDefault,
          "adamw updates each tensor as soon as its gradient is ready and keeps no gradients; for one micro-batch"),
      field<&T::adapter_rank>("lora.rank", whole(0, 100'000), kDefault,
                              "rank of the adapters; 0: no adapters, all parameters are trained"),
      some<&T::adapted_layers>("lora.modules",
                               {{"linear_qkv", AdaptedLayer::linear_qkv},
                                {"linear_proj", AdaptedLayer::linear_proj},
                                {"linear_fc1", AdaptedLayer::linear_fc1},
                                {"linear_fc2", AdaptedLayer::linear_fc2}},
                               "linear layers with adapters, in Megatron-Core's names (all four)"),
      field<&T::adapts_experts>("lora.experts", boolean(), kDefault,
                                "linear_fc1 and linear_fc2 include those of every expert"),
      field<&T::learns_ends>("lora.ends", boolean(), kDefault,
                             "also train embedding and head, as copies beside the originals (PEFT's modules_to_save)"),
      choice<&T::frozen_precision>(
          "frozen_precision",
          {{"training", FrozenPrecision::training},
           {"fp8", FrozenPrecision::fp8},
           {"int8", FrozenPrecision::int8},
           {"nf4", FrozenPrecision::nf4},
           {"nf4-double", FrozenPrecision::nf4_double},
           {"gptq", FrozenPrecision::gptq}},
          kDefault,
          "storage and gather precision of the frozen matrices under adapters; training: that of `precision`; others "
          "are expanded to 16 bits for each product. nf4: one fp32 scale per 64 values, or an 8-bit one (nf4-double); "
          "gptq: 4 bits, one scale per 128"),
      choice<&T::clipping>(
          "gradient_clipping",
          {{"none", GradientClipping::none}, {"norm", GradientClipping::norm}, {"grouped", GradientClipping::grouped}},
          {[](const T& t) { return t.optimizer->clipping; }, of_each(clips).c_str()},
          "for optimizers that step inside the backward (for others it is part of `optimizer_bytes`); norm: an extra "
          "backward computes the norm of all gradients first; grouped: each tensor by its own norm"),
      field<&T::overflow_rate>("loss_scaling.overflow_rate", number(0, .99), std::nullopt,
                               "share of steps that overflow and train nothing; absent: once per doubling of the "
                               "scale, 2 of 1002 (lomo: 1 of 1001)"),
      choice<&T::loss_scaling>("loss_scaling.mode", {{"none", LossScaling::none}, {"dynamic", LossScaling::dynamic}},
                               {[](const T& t) { return t.overflow_rate ? LossScaling::dynamic : LossScaling::none; },
                                "dynamic with `overflow_rate`, else none"},
                               "with loss scaling, samples per second count only steps that train"),
      settled(field<&T::skipped>("skipped", boolean(), kDefault, "")),
      field<&T::learning_rate>("learning_rate", positive(),
                               {[](const T& t) { return t.optimizer->learning_rate; }, of_each(rate).c_str()},
                               "for performed training; predictions do not depend on it"),
      field<&T::weight_decay>(
          "weight_decay", number(0, 1),
          {[](const T& t) { return t.optimizer->weight_decay.value_or(0); }, of_each(decay).c_str()},
          "of adamw, for performed training; predictions do not depend on it"),
      some<&T::recompute_modules>("recompute.modules",
                                  {{"core_attn", RecomputeModule::core_attn},
                                   {"layernorm", RecomputeModule::layernorm},
                                   {"mla_up_proj", RecomputeModule::mla_up_proj},
                                   {"moe_act", RecomputeModule::moe_act},
                                   {"mlp", RecomputeModule::mlp},
                                   {"moe", RecomputeModule::moe},
                                   {"shared_experts", RecomputeModule::shared_experts},
                                   {"mlp_act", RecomputeModule::mlp_act}},
                                  "what mode selective recomputes (`selective_recompute`), in Megatron-Core's names; "
                                  "mlp_act is Megatron-Kwai's"),
      stored.operator()<&T::stored_fp8>("activation_storage.fp8", "kept in 8 bits, with one scale per 128 values"),
      stored.operator()<&T::stored_e5m6>("activation_storage.e5m6",
                                         "kept in 12 bits (DeepSeek-V3), with one scale per 128 values"),
      choice<&T::recompute>(
          "recompute.mode",
          {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}},
          {[](const T& t) { return t.recompute_modules.empty() ? Recompute::none : Recompute::selective; },
           "selective with `modules`, else none"},
          "which operators are recomputed"),
      field<&T::recompute_every>("recompute.every", whole(1, 1e9), kDefault,
                                 "recompute every n-th of those layers (torchtitan, FSDP)"),
      field<&T::recompute_layers>("recompute.layers", whole(0, 1e9), std::nullopt,
                                  "number of first layers of each stage to recompute (Megatron's method block; all); "
                                  "not Megatron's uniform, whose groups recompute everything"),
      choice<&T::attention>("attention", {{"flash", AttentionKind::flash}, {"unfused", AttentionKind::unfused}},
                            kDefault, ""),
      field<&T::causal>("causal", boolean(), kDefault, "tokens attend only to earlier ones"),
      choice<&T::context>(
          "context",
          {{"ring", ContextKind::ring},
           {"all-gather", ContextKind::all_gather},
           {"all-to-all", ContextKind::all_to_all}},
          kDefault,
          "with `parallelism.context`: keys and values pass around a ring, or are gathered (the default if some layers "
          "attend to a part of the sequence), or an all-to-all splits heads instead of the sequence (Ulysses)"),
      field<&T::context_balance>(
          "context_balance", boolean(), kDefault,
          "each GPU has a piece from both ends of the sequence, which balances causal attention"),
      field<&T::overlap_gathers>("overlap.parameters", boolean(), std::nullopt,
                                 "ZeRO-3 gathers overlap the pass; ZeRO-1 gathers of updated parameters overlap the "
                                 "next forward; with neither, only false"),
      choice<&T::kernels>("kernels", {{"fused", Kernels::fused}, {"unfused", Kernels::unfused}}, kDefault,
                          "unfused: norms, rotations, GELU or SwiGLU and softmax run operation by operation, each with "
                          "its own reads and writes; not with a compiled `framework`"),
      field<&T::bucket>(
          "bucket", size(), std::nullopt,
          "size of the gradient buckets that are reduced during the backward; absent: as the framework does"),
      field<&T::buffer_size>("buffers.size", size(), std::nullopt,
                             "size of a fused buffer, in place of `bucket`, and of each reduction after the backward"),
      choice<&T::buffers>(
          "buffers.kind",
          {{"framework", Buffers::framework}, {"growing", Buffers::growing}, {"constant", Buffers::constant}},
          {[](const T& t) { return t.buffer_size ? Buffers::constant : Buffers::framework; },
           "constant with `size`, else framework"},
          "framework: no copy, or `flat_gradient_bytes`; growing: one buffer for all gradients of the GPU, reduced "
          "when all are there; constant: a buffer of `size`, two if reductions overlap the backward"),
      absence_means(field<&T::prefetch>("fsdp.prefetch", whole(0, 1000), std::nullopt,
                                        "layers, or tiles, by which gathers run ahead (1)"),
                    std::int64_t{1}),
      or_also(
          absence_means(field<&T::reshard_after_forward>(
                            "fsdp.reshard_after_forward", boolean(), std::nullopt,
                            "true (default): gathered parameters are dropped after the forward; a number: this many "
                            "neighboring GPUs each keep a part and gather from one another for the backward (FSDP2)"),
                        true),
          {whole(2, kMostOver)}),
      settled(field<&T::reshard_over>("fsdp.reshard_over", whole(0, kMostOver), kDefault, "")),
      choice<&T::quantised_gathers>(
          "quantised_gathers", {{"none", false}, {"int8", true}}, kDefault,
          "with zero 3: parameters are gathered in 8 bits, with one fp32 scale per 8000 values (qwZ of ZeRO++)"),
      choice<&T::quantised_reductions>(
          "quantised_reductions", {{"none", false}, {"int4", true}}, kDefault,
          "with zero 3: gradients are exchanged in 4 bits and summed, first inside nodes, then across (qgZ of ZeRO++)"),
      nested<&T::offload>("offload", offload_fields()),
      choice<&T::partition_activations>(
          "partition_activations",
          {{"none", CutCheckpoints::none}, {"device", CutCheckpoints::device}, {"host", CutCheckpoints::host}},
          kDefault,
          "checkpoints of recomputed layers are split over the tensor group and gathered for the backward (ZeRO-R)"),
      choice<&T::allocator>(
          "allocator",
          {{"caching", Allocator::caching}, {"expandable", Allocator::expandable}, {"exact", Allocator::exact}},
          kDefault, "PyTorch's caching allocator, the same with expandable segments, or none: reserved = allocated"),
      field<&T::defragment>("defragment", boolean(), kDefault,
                            "checkpoints of recomputed layers, and gradients that wait for their reduction, are copied "
                            "into memory allocated once (ZeRO-R); with recompute full, or zero 2 or 3"));
  return all;
}

const Description& framework_fields() {
  using S = Framework;
  constexpr double kMostTraffic = 1000;
  static const Description all = describe<S>(
      {}, settled(field<&S::name>("name", text(), kDefault, "")),
      field<&S::dropout>("dropout", boolean(), kDefault, "training uses dropout"),
      field<&S::fused_accumulation>("fused_accumulation", boolean(), kDefault,
                                    "weight-gradient products accumulate into the gradient buffer themselves"),
      field<&S::accumulate_bytes_fp16>("accumulate_bytes_fp16", number(0, kMostTraffic), kDefault,
                                       "memory traffic per parameter and micro-batch to accumulate an fp16 gradient"),
      field<&S::accumulate_bytes_bf16>("accumulate_bytes_bf16", number(0, kMostTraffic), kDefault, "the same for bf16"),
      field<&S::optimizer_bytes>("optimizer_bytes", number(0, kMostTraffic), kDefault,
                                 "memory traffic per parameter of one optimizer step"),
      field<&S::optimizer_overhead>("optimizer_overhead", time(), kDefault,
                                    "time of one optimizer step beyond its traffic: many small kernels"),
      field<&S::scaling_bytes>("scaling_bytes", number(0, kMostTraffic), kDefault,
                               "memory traffic per parameter to unscale gradients and find infinities with "
                               "`loss_scaling`, if `optimizer_bytes` does not include it"),
      field<&S::launch_blocking>(
          "launch_blocking", boolean(), kDefault,
          "each launch waits until its kernel ends (CUDA_LAUNCH_BLOCKING=1), so host time adds up"),
      field<&S::host_optimizer_bytes>("host_optimizer_bytes", number(0, kMostTraffic), kDefault,
                                      "memory traffic per parameter of one optimizer step on the host"),
      field<&S::host_seconds_per_kernel>("host_time_per_kernel", time(), kDefault,
                                         "host time per kernel launch, from Python or autograd"),
      field<&S::host_loop_time>(
          "host_loop_time", time(), kDefault,
          "the same for a kernel launched by a loop inside one call, such as the matrix products of experts"),
      choice<&S::launches>(
          "launches",
          {{"kernels", LaunchCounts::kernels}, {"megatron", LaunchCounts::megatron}, {"eager", LaunchCounts::eager}},
          kDefault,
          "what costs one launch: a kernel, or a module of Megatron-Core or an eager model (always with experts)"),
      field<&S::host_backward_factor>("host_backward_factor", number(0, 10), kDefault,
                                      "factor on host time in the backward, where the autograd thread launches faster"),
      choice<&S::attention_kernel>("attention_kernel",
                                   {{"flash-2", AttentionKernel::flash2},
                                    {"flash-3", AttentionKernel::flash3},
                                    {"cudnn", AttentionKernel::cudnn}},
                                   kDefault, "who wrote the fused attention kernel"),
      field<&S::attention_rate>("attention_rate", number_above(0, 10), kDefault,
                                "rate relative to the published kernel"),
      choice<&S::fp8_scaling>("fp8_scaling",
                              {{"tensorwise", Fp8Scaling::tensorwise},
                               {"current", Fp8Scaling::current},
                               {"rowwise", Fp8Scaling::rowwise},
                               {"blockwise", Fp8Scaling::blockwise},
                               {"mx", Fp8Scaling::mx}},
                              kDefault,
                              "what shares one fp8 scale; current: a tensor, whose maximum is found before each cast; "
                              "tensorwise: a tensor, with a known maximum"),
      field<&S::sharded_sends>("sharded_sends", boolean(), kDefault,
                               "each tensor rank sends its part; the receivers gather them"),
      field<&S::blocking_sends>("blocking_sends", boolean(), kDefault, "a rank waits until its send is done"),
      choice<&S::gradient_overlap>("gradient_overlap",
                                   {{"never", GradientOverlap::never},
                                    {"without-pipeline", GradientOverlap::without_pipeline},
                                    {"always", GradientOverlap::always}},
                                   kDefault, "when gradient reductions overlap the backward"),
      field<&S::gather_overlap>("gather_overlap", boolean(), kDefault,
                                "ZeRO-1 gathers of updated parameters overlap the next forward"),
      field<&S::bucket_parameters>("bucket_parameters", whole(0, 1e12), kDefault,
                                   "parameters per bucket of a gradient reduction, and of a ZeRO-1 gather; 0: 25 MB"),
      field<&S::bucket_parameters_per_replica>("bucket_parameters_per_replica", whole(0, 1e12), kDefault,
                                               "lower bound of the same, per replica"),
      field<&S::fp8_gather>("fp8_gather", boolean(), kDefault,
                            "with precision fp8, replicas gather the layers' parameters in 8 bits"),
      field<&S::bf16_gradients>("bf16_gradients", boolean(), kDefault,
                                "bf16, fp8 and fp4 training keeps and reduces gradients in bf16, unless "
                                "`training.gradient_precision` says otherwise"),
      choice<&S::zero1_reduces>("zero1_reduces", {{"shards", Zero1Reduces::shards}, {"all", Zero1Reduces::all}},
                                kDefault,
                                "what ZeRO-1 reduces: shards, to their owners; or all gradients, to all replicas "
                                "(DeepSpeed's reduce_scatter: false)"),
      field<&S::sharded_tensors>("sharded_tensors", whole(1, 1000), kDefault,
                                 "with ZeRO-3: gather calls per layer; 1: one flat buffer"),
      field<&S::sharded_tensor_latency>("sharded_tensor_latency", time(), kDefault,
                                        "latency of such a call per rank, with several tensors per layer"),
      field<&S::sharded_tensor_efficiency>("sharded_tensor_efficiency", fraction(), kDefault,
                                           "share of the rate of a node's NICs that such a call reaches"),
      choice<&S::selective_recompute>(
          "selective_recompute",
          {{"attention", SelectiveRecompute::attention}, {"operators", SelectiveRecompute::operators}}, kDefault,
          "default of mode selective; attention: the attention core; operators: all but attention and every second "
          "matrix product"),
      field<&S::early_stop>("early_stop", boolean(), kDefault,
                            "recomputation stops before a layer's last matrix product (PyTorch 2.1)"),
      field<&S::compiled>("compiled", boolean(), kDefault, "torch.compile fuses memory-bound kernels"),
      field<&S::separate_projections>("separate_projections", boolean(), kDefault,
                                      "q, k and v, and gate and up, are separate matrix products"),
      field<&S::async_tensor>(
          "async_tensor", boolean(), kDefault,
          "with sequence parallelism: matrix products are split to overlap their gathers and scatters"),
      field<&S::weight_gradient_overlap>(
          "weight_gradient_overlap", boolean(), kDefault,
          "the tensor-parallel reduction of input gradients overlaps the computation of weight gradients"),
      choice<&S::cuda_graph>(
          "cuda_graph",
          {{"none", CudaGraph::none},
           {"attention", CudaGraph::attention},
           {"router", CudaGraph::router},
           {"attention+router", CudaGraph::attention_router},
           {"full", CudaGraph::full}},
          kDefault, "which parts of a layer with experts are captured in CUDA graphs; full: the whole iteration"),
      choice<&S::dispatcher>(
          "dispatcher",
          {{"nccl", Dispatcher::nccl}, {"deepep", Dispatcher::deepep}, {"hybridep", Dispatcher::hybridep}}, kDefault,
          "library that sends tokens to their experts"),
      field<&S::dispatch_sms>("dispatch_sms", whole(0, 1000), kDefault,
                              "multiprocessors that its kernels occupy; 0: its default"),
      field<&S::room_for_dispatch>(
          "room_for_dispatch", boolean(), kDefault,
          "matrix products beside a token exchange use only the multiprocessors it leaves free (DeepGEMM's "
          "set_num_sms); otherwise persistent products take a second round (`gpu.persistent_gemms`)"),
      field<&S::dispatch_overhead>("dispatch_overhead", time(), kDefault,
                                   "fixed time to send tokens to their experts, or back, beyond their bytes"),
      field<&S::fp8_dispatch>("fp8_dispatch", boolean(), kDefault,
                              "tokens are sent to their experts in 8 bits and back in 16 (DeepSeek-V3)"),
      field<&S::expert_overlap>("expert_overlap", boolean(), kDefault,
                                "expert all-to-alls overlap the passes of another micro-batch"),
      field<&S::shared_expert_overlap>("shared_expert_overlap", boolean(), kDefault,
                                       "expert all-to-alls overlap the shared experts"),
      field<&S::fused_router>("fused_router", boolean(), kDefault,
                              "the router's softmax, top-k and balancing loss are fused kernels"),
      field<&S::fused_grouped_mlp>("fused_grouped_mlp", boolean(), kDefault,
                                   "expert matrix products, activation and casts are one kernel"),
      field<&S::fused_expert_activation>("fused_expert_activation", boolean(), kDefault,
                                         "the experts' activation is one kernel; otherwise a clamped GLU with biases, "
                                         "operation by operation (GPT-OSS)"),
      field<&S::host_bound_to_cores>("host_bound_to_cores", boolean(), kDefault,
                                     "each process launches kernels from its own cores"),
      field<&S::dropout_forward>("dropout_forward", number_above(0, 10), kDefault,
                                 "memory traffic of kernels with dropout, relative to without: forward"),
      field<&S::dropout_backward>("dropout_backward", number_above(0, 10), kDefault, "the same, backward"),
      field<&S::compiled_traffic>("compiled_traffic", number_above(0, 1), kDefault,
                                  "share of the traffic of memory-bound kernels that remains with torch.compile"),
      field<&S::permuted_traffic>("permuted_traffic", number_above(0, 10), kDefault,
                                  "traffic of the permutations around experts over the least possible"),
      field<&S::activated_traffic>("activated_traffic", number_above(0, 10), kDefault,
                                   "the same for the experts' activations"),
      field<&S::fused_activation>("fused_activation", number_above(0, 1), kDefault,
                                  "share of that which remains with `fused_grouped_mlp`"),
      field<&S::zero3_launches>("zero3_launches", number(0, 1000), kDefault,
                                "with zero 3, also on one GPU: fetching and releasing a layer's modules takes as long "
                                "as this many launches, in each pass (DeepSpeed's hooks)"),
      field<&S::fused_softmax>("fused_softmax", boolean(), kDefault,
                               "attention without a fused kernel: scale, mask and softmax are one 16-bit kernel"),
      field<&S::gate_reduced_apart>("gate_reduced_apart", boolean(), kDefault,
                                    "gate and up each reduce their input gradient over the tensor group"),
      field<&S::gather_copy_bytes>("gather_copy_bytes", number(0, 100), kDefault,
                                   "memory traffic per parameter to join the parts that zero 3 has gathered"),
      field<&S::expert_slices>("expert_slices", boolean(), kDefault,
                               "experts run one by one on slices of one shared tensor, whose gradient is cleared and "
                               "accumulated for each of them (GraniteMoe of transformers)"),
      field<&S::unbound_host>("unbound_host", number_above(0, 10), kDefault,
                              "factor on launch time without `host_bound_to_cores`"),
      field<&S::dispatch_nvlink_share>("dispatch_nvlink_share", fraction(), kDefault,
                                       "share of NVLink bandwidth that NCCL's expert all-to-all reaches"),
      field<&S::dispatch_nic_share>("dispatch_nic_share", fraction(), kDefault,
                                    "share of NIC bandwidth that the expert all-to-alls of NCCL and HybridEP reach"),
      field<&S::nic_share>(
          "nic_share", fraction(), kDefault,
          "share of `links.scale_out.efficiency`, what collectives reach alone, that they reach in a training step"),
      field<&S::fp32_adapters>("fp32_adapters", boolean(), kDefault,
                               "low-rank adapters compute in fp32 beside 16-bit matrix products (PEFT)"),
      field<&S::autocast>("autocast", boolean(), kDefault,
                          "fp32 adapters compute their products in 16 bits, between casts (PyTorch's autocast)"),
      field<&S::adapter_dropout>("adapter_dropout", boolean(), kDefault,
                                 "the input of an adapter passes a dropout and is kept"),
      field<&S::keeps_quantised_inputs>("keeps_quantised_inputs", boolean(), kDefault,
                                        "products with quantized matrices keep their input (bitsandbytes up to 0.42)"),
      field<&S::fp32_stream>("fp32_stream", boolean(), kDefault,
                             "the residual stream is fp32 (PEFT's prepare_model_for_kbit_training)"),
      field<&S::transient_gradients>("transient_gradients", boolean(), kDefault,
                                     "gradients are allocated during the backward and freed after the step"),
      field<&S::foreach_step>(
          "foreach_step", boolean(), kDefault,
          "AdamW runs operation by operation over all tensors (PyTorch's foreach): three times the traffic, and memory "
          "for one more moment while it steps, since it takes all square roots before it uses any"),
      choice<&S::loss>(
          "loss",
          {{"vocabulary-parallel", LossKernels::vocabulary_parallel},
           {"in-place", LossKernels::in_place},
           {"torch", LossKernels::torch},
           {"fused", LossKernels::fused},
           {"compiled", LossKernels::compiled},
           {"chunked", LossKernels::chunked},
           {"classifier", LossKernels::classifier},
           {"linear-fused", LossKernels::linear_fused}},
          kDefault,
          "cross-entropy: Megatron's; the same with an in-place softmax of the fp32 logits; PyTorch's kernels one by "
          "one; or fused. compiled: PyTorch's, fused if `compiled`; chunked: the same with the head, in chunks of "
          "tokens (torchtitan); classifier: chunked, in a kernel that overwrites the logits with their gradient "
          "(llm.c, LLM.Q); linear-fused: chunked, with gradients computed in the forward (Liger)"),
      field<&S::loss_chunks>(
          "loss_chunks", whole(0, 4096), kDefault,
          "chunks of tokens for loss chunked, classifier or linear-fused; 0: 8, 1, or Liger's vocabulary / hidden"),
      field<&S::saves_casts>("saves_casts", boolean(), kDefault,
                             "in fp8, the 8-bit copy of a product's input is kept for its weight gradient"),
      field<&S::saves_gathered>("saves_gathered", boolean(), kDefault,
                                "with sequence parallelism: gathered inputs are kept for the weight gradient"),
      field<&S::keeps_stage_output>("keeps_stage_output", boolean(), kDefault,
                                    "a stage's output is kept from its forward to its backward"),
      field<&S::flat_bucket>("flat_bucket", boolean(), kDefault,
                             "gradients are copied into a flat buffer of a bucket's size before they are reduced"),
      field<&S::lazy_modules>(
          "lazy_modules", boolean(), kDefault,
          "library kernels are loaded at their first call; otherwise all at once (`cluster.gpu.eager_context`)"),
      field<&S::flat_gradient_bytes>("flat_gradient_bytes", number(0, kMostTraffic), kDefault,
                                     "bytes per parameter of a flat buffer beside the gradients"),
      field<&S::step_gradient_bytes>(
          "step_gradient_bytes", number(0, kMostTraffic), kDefault,
          "bytes per parameter of fp32 copies of fp16 gradients while an unsharded optimizer steps"),
      field<&S::workspace>("workspace", size(), kDefault, "workspace of the matrix library"),
      field<&S::nccl>("nccl", version(), kDefault, "NCCL version, which decides what collective algorithms there are"),
      field<&S::native_kernels>("native_kernels", boolean(), kDefault,
                                "this program's own kernels on exact buffers, as `measure` runs them"),
      aside<&S::source>("citations move no answer"), aside<&S::sources>("citations move no answer"),
      aside<&S::assumed>("citations move no answer"));
  return all;
}

}  // namespace rehearsal::models
