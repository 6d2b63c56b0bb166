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
                   .help = "checkpoints of recomputed layers; or, of others, a part of what they keep",
                   .short_for = "to"}}},
      tier.operator()<&O::optimizer>("optimizer", "master parameters and moments, which the host then updates"),
      field<&O::optimizer_fraction>("optimizer_fraction", number_above(0, 1), kDefault,
                                    "of those states, that leave the GPU and are updated there (Megatron-Core's "
                                    "--optimizer-offload-fraction); the GPU updates the rest before"),
      tier.operator()<&O::gradients>("gradients", "as they are reduced"),
      tier.operator()<&O::parameters>("parameters", "those that are computed with; needs zero 3, or one GPU"),
      field<&O::activation_share>("activations.share", number(0, 1), std::nullopt,
                                  "of the bytes that each layer keeps for its backward, where it is not recomputed as "
                                  "a whole: copied away behind its forward and back ahead of its backward"),
      field<&O::activation_layers>("activations.layers", whole(1, 1e9), std::nullopt,
                                   "the first of a stage, whose values leave; all where it is left out"),
      choice<&O::activations>(
          "activations.to",
          {{"device", Tier::device},
           {"host", Tier::host},
           {"nvme", Tier::nvme},
           {"none", Tier::device},
           {"cpu", Tier::host}},
          {[](const O& o) { return o.activation_share || o.activation_layers ? Tier::host : Tier::device; },
           "host with `share` or `layers`, else device"},
          "where what is kept for the backward waits"),
      field<&O::delayed_update>("delayed_update", boolean(), kDefault,
                                "the host updates under the next step, which computes with older parameters"),
      field<&O::prefetch>("prefetch", whole(0, 1000), kDefault,
                          "layers, or tiles, that a copy to the GPU is ahead of the gather that it feeds, and a read "
                          "from disk of that copy"),
      field<&O::tiles>("tiles", whole(1, 256), kDefault,
                       "that each linear operator of a layer is cut into by its columns; they run one after the other, "
                       "and parameters and gradients come and go tile by tile; with zero 3 or offloaded parameters"),
      choice<&O::one_owner>("owner", {{"all", false}, {"one", true}}, kDefault,
                            "who keeps a parameter: everybody a share (bandwidth-centric), or one GPU, which hands it "
                            "on"));
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
      {.groups = {{.key = "recompute",
                   .help = "which layers compute their forward again in the backward",
                   .short_for = "mode"},
                  {.key = "activation_storage",
                   .help = "in how few bits values wait for the backward: latents of latent attention, what attention "
                           "gives, rows dispatched to experts, what activations of experts or other layers read"},
                  {.key = "lora", .help = "low-rank adapters (LoRA) learn, and nothing else does", .short_for = "rank"},
                  {.key = "overlap", .help = "what runs under computation; wins over `framework`"},
                  {.key = "fsdp", .help = "how ZeRO-3 gathers"},
                  {.key = "buffers",
                   .help = "what gradients are fused in before replicas reduce them (ZeRO-R)",
                   .short_for = "kind"},
                  {.key = "loss_scaling",
                   .help = "of fp16: gradients are looked through for infinities, and a step that has some is skipped",
                   .short_for = "mode"},
                  {.key = "offload", .help = "which states leave the GPU: to its host, to the disks of its node"}}},
      choice<&T::precision>("precision",
                            {{"fp32", Precision::fp32},
                             {"fp16", Precision::fp16},
                             {"bf16", Precision::bf16},
                             {"fp8", Precision::fp8},
                             {"fp4", Precision::fp4}},
                            kDefault, "the GPU must have it"),
      choice<&T::moments>("moments",
                          {{"fp32", Moments::fp32},
                           {"bf16", Moments::bf16},
                           {"int8", Moments::int8},
                           {"int8-2048", Moments::int8_2048}},
                          kDefault,
                          "what adamw keeps its two moments in; int8: with a scale for each 256 (torchao, bitsandbytes "
                          "from 0.45), or for each 2048 (bitsandbytes before)"),
      field<&T::master_copy>("master_copy", boolean(), kDefault,
                             "weights in 16 bits have a copy in fp32, which the optimizer updates"),
      // fp16 training keeps fp16 gradients and unscales them; bf16 has too few digits for sums.
      choice<&T::gradient_precision>(
          "gradient_precision", {{"fp32", Precision::fp32}, {"fp16", Precision::fp16}, {"bf16", Precision::bf16}},
          {[](const T& t) { return t.precision == Precision::fp16 ? Precision::fp16 : Precision::fp32; },
           "fp16 for fp16, else fp32"},
          "what gradients add up in"),
      plugin<&T::optimizer>("optimizer", optimizers(), summaries()),
      field<&T::optimizer_in_backward>(
          "optimizer_in_backward", boolean(), kDefault,
          "adamw steps on each tensor as soon as its gradient is there, of one micro-batch, and keeps no gradient"),
      field<&T::adapter_rank>("lora.rank", whole(0, 100'000), kDefault,
                              "width of an adapter between its two products; 0: no adapters, everything learns"),
      some<&T::adapted_layers>("lora.modules",
                               {{"linear_qkv", AdaptedLayer::linear_qkv},
                                {"linear_proj", AdaptedLayer::linear_proj},
                                {"linear_fc1", AdaptedLayer::linear_fc1},
                                {"linear_fc2", AdaptedLayer::linear_fc2}},
                               "linear layers that have adapters, as Megatron-Core names them (all four)"),
      field<&T::adapts_experts>("lora.experts", boolean(), kDefault,
                                "linear_fc1 and linear_fc2 are those of every expert, too"),
      field<&T::learns_ends>("lora.ends", boolean(), kDefault,
                             "embedding and head learn, too: copies beside the originals (PEFT's modules_to_save)"),
      choice<&T::frozen_precision>("frozen_precision",
                                   {{"training", FrozenPrecision::training},
                                    {"fp8", FrozenPrecision::fp8},
                                    {"int8", FrozenPrecision::int8},
                                    {"nf4", FrozenPrecision::nf4},
                                    {"nf4-double", FrozenPrecision::nf4_double},
                                    {"gptq", FrozenPrecision::gptq}},
                                   kDefault,
                                   "what matrices of layers are held and gathered in beside adapters; training: as "
                                   "`precision` has them; others are copied to 16 bits for each product. nf4: a scale "
                                   "of fp32 for each 64, or of 8 bits (nf4-double); gptq: 4 bits, a scale for each "
                                   "128"),
      choice<&T::clipping>(
          "gradient_clipping",
          {{"none", GradientClipping::none}, {"norm", GradientClipping::norm}, {"grouped", GradientClipping::grouped}},
          {[](const T& t) { return t.optimizer->clipping; }, of_each(clips).c_str()},
          "of optimizers that step inside the backward; norm: a backward before the one that updates finds out the "
          "norm of all gradients; grouped: each tensor by its own; others' is part of `optimizer_bytes`"),
      field<&T::overflow_rate>("loss_scaling.overflow_rate", number(0, .99), std::nullopt,
                               "share of the steps that overflow and train nothing; left out: as often as the scale "
                               "doubles, 2 of 1002 (lomo: 1 of 1001)"),
      choice<&T::loss_scaling>("loss_scaling.mode", {{"none", LossScaling::none}, {"dynamic", LossScaling::dynamic}},
                               {[](const T& t) { return t.overflow_rate ? LossScaling::dynamic : LossScaling::none; },
                                "dynamic with `overflow_rate`, else none"},
                               "what is said of samples per second then counts steps that train"),
      settled(field<&T::skipped>("skipped", boolean(), kDefault, "")),
      field<&T::learning_rate>("learning_rate", positive(),
                               {[](const T& t) { return t.optimizer->learning_rate; }, of_each(rate).c_str()},
                               "of real training; no prediction depends on it"),
      field<&T::weight_decay>(
          "weight_decay", number(0, 1),
          {[](const T& t) { return t.optimizer->weight_decay.value_or(0); }, of_each(decay).c_str()},
          "a term of adamw, in real training; no prediction depends on it"),
      some<&T::recompute_modules>(
          "recompute.modules",
          {{"core_attn", RecomputeModule::core_attn},
           {"layernorm", RecomputeModule::layernorm},
           {"mla_up_proj", RecomputeModule::mla_up_proj},
           {"moe_act", RecomputeModule::moe_act},
           {"mlp", RecomputeModule::mlp},
           {"moe", RecomputeModule::moe},
           {"shared_experts", RecomputeModule::shared_experts},
           {"mlp_act", RecomputeModule::mlp_act}},
          "what selective repeats, as Megatron-Core names it (mlp_act, the activation of layers "
          "without experts, is Megatron-Kwai's); otherwise the framework's `selective_recompute`"),
      stored.operator()<&T::stored_fp8>("activation_storage.fp8", "kept in 8 bits, with a scale for each 128"),
      stored.operator()<&T::stored_e5m6>("activation_storage.e5m6",
                                         "kept in 12 bits (DeepSeek-V3), with a scale for each 128"),
      choice<&T::recompute>(
          "recompute.mode",
          {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}},
          {[](const T& t) { return t.recompute_modules.empty() ? Recompute::none : Recompute::selective; },
           "selective with `modules`, else none"},
          "of which operators"),
      field<&T::recompute_every>("recompute.every", whole(1, 1e9), kDefault,
                                 "every n-th layer of a stage (torchtitan, FSDP), among its first `layers`"),
      field<&T::recompute_layers>("recompute.layers", whole(0, 1e9), std::nullopt,
                                  "the first of a stage (Megatron's method block); all where it is left out. Not "
                                  "Megatron's `uniform`, whose groups recompute everything"),
      choice<&T::attention>("attention", {{"flash", AttentionKind::flash}, {"unfused", AttentionKind::unfused}},
                            kDefault, ""),
      field<&T::causal>("causal", boolean(), kDefault, "whether tokens see only those before them"),
      choice<&T::context>("context",
                          {{"ring", ContextKind::ring},
                           {"all-gather", ContextKind::all_gather},
                           {"all-to-all", ContextKind::all_to_all}},
                          kDefault,
                          "with `parallelism.context`: keys and values travel around, are gathered (also by default "
                          "where layers see a part of the sequence), or heads are cut instead of it (Ulysses)"),
      field<&T::context_balance>("context_balance", boolean(), kDefault,
                                 "each GPU has a piece from either end of the sequence, so that causal attention is "
                                 "even"),
      field<&T::overlap_gathers>("overlap.parameters", boolean(), std::nullopt,
                                 "ZeRO-3's gathers under the pass; ZeRO-1's, of what a step has updated, under the "
                                 "forward of the next one; without these only false"),
      choice<&T::kernels>(
          "kernels", {{"fused", Kernels::fused}, {"unfused", Kernels::unfused}}, kDefault,
          "unfused: norms, rotations, GELU or SwiGLU and softmax operation by operation, each with its own "
          "reads and writes; not of compiled framework"),
      field<&T::bucket>("bucket", size(), std::nullopt,
                        "gradients that are reduced at a time under the backward, else as the framework does"),
      field<&T::buffer_size>("buffers.size", size(), std::nullopt,
                             "bytes of a fused buffer, in place of `bucket`; and of each reduction after the backward"),
      choice<&T::buffers>(
          "buffers.kind",
          {{"framework", Buffers::framework}, {"growing", Buffers::growing}, {"constant", Buffers::constant}},
          {[](const T& t) { return t.buffer_size ? Buffers::constant : Buffers::framework; },
           "constant with `size`, else framework"},
          "framework: as it does it, without a copy or with `flat_gradient_bytes`; growing: one as large as all "
          "gradients of the GPU, which are reduced when all are there; constant: of `size`, two where reductions run "
          "under the backward"),
      absence_means(field<&T::prefetch>("fsdp.prefetch", whole(0, 1000), std::nullopt,
                                        "layers, or tiles, ahead that parameters are gathered (1)"),
                    std::int64_t{1}),
      or_also(absence_means(field<&T::reshard_after_forward>(
                                "fsdp.reshard_after_forward", boolean(), std::nullopt,
                                "parameters are dropped between forward and backward (true); a number: but for parts "
                                "that so many neighbouring GPUs keep, and gather again among themselves (FSDP2)"),
                            true),
              {whole(2, kMostOver)}),
      settled(field<&T::reshard_over>("fsdp.reshard_over", whole(0, kMostOver), kDefault, "")),
      choice<&T::quantised_gathers>(
          "quantised_gathers", {{"none", false}, {"int8", true}}, kDefault,
          "of zero 3: parameters are gathered in 8 bits, with a scale of fp32 for each 8000 (qwZ of ZeRO++)"),
      choice<&T::quantised_reductions>(
          "quantised_reductions", {{"none", false}, {"int4", true}}, kDefault,
          "of zero 3: gradients are exchanged in 4 bits and summed, inside nodes and then across (qgZ of ZeRO++)"),
      nested<&T::offload>("offload", offload_fields()),
      choice<&T::partition_activations>(
          "partition_activations",
          {{"none", CutCheckpoints::none}, {"device", CutCheckpoints::device}, {"host", CutCheckpoints::host}},
          kDefault,
          "what recomputed layers keep is cut over the tensor group and gathered for the "
          "backward (ZeRO-R)"),
      choice<&T::allocator>(
          "allocator",
          {{"caching", Allocator::caching}, {"expandable", Allocator::expandable}, {"exact", Allocator::exact}},
          kDefault, "torch's caching allocator, the same with expandable segments, or reserved = allocated"),
      field<&T::defragment>("defragment", boolean(), kDefault,
                            "what recomputed layers keep, and gradients that wait for their reduction, are copied into "
                            "memory that was allocated for them once (ZeRO-R); of recompute full, or zero 2 and 3"));
  return all;
}

const Description& framework_fields() {
  using S = Framework;
  constexpr double kMostTraffic = 1000;
  static const Description all = describe<S>(
      {}, settled(field<&S::name>("name", text(), kDefault, "")),
      field<&S::dropout>("dropout", boolean(), kDefault, "models are trained with dropout"),
      field<&S::fused_accumulation>("fused_accumulation", boolean(), kDefault,
                                    "weight-gradient products add into the gradient buffer themselves"),
      field<&S::accumulate_bytes_fp16>("accumulate_bytes_fp16", number(0, kMostTraffic), kDefault,
                                       "traffic per parameter and micro-batch to add a gradient in fp16"),
      field<&S::accumulate_bytes_bf16>("accumulate_bytes_bf16", number(0, kMostTraffic), kDefault, "and in bf16"),
      field<&S::optimizer_bytes>("optimizer_bytes", number(0, kMostTraffic), kDefault,
                                 "traffic per parameter of one optimizer step"),
      field<&S::optimizer_overhead>("optimizer_overhead", time(), kDefault,
                                    "of one optimizer step, besides its traffic: many small kernels"),
      field<&S::scaling_bytes>("scaling_bytes", number(0, kMostTraffic), kDefault,
                               "and of unscaling gradients and looking for infinities with `loss_scaling`, where "
                               "`optimizer_bytes` does not hold it"),
      field<&S::launch_blocking>("launch_blocking", boolean(), kDefault,
                                 "a launch waits until the kernel has ended (CUDA_LAUNCH_BLOCKING=1): the time of the "
                                 "host comes on top"),
      field<&S::host_optimizer_bytes>("host_optimizer_bytes", number(0, kMostTraffic), kDefault,
                                      "and of one step on the host"),
      field<&S::host_seconds_per_kernel>("host_time_per_kernel", time(), kDefault,
                                         "what a launch takes of the host, from Python or autograd"),
      field<&S::host_loop_time>("host_loop_time", time(), kDefault,
                                "the same of a kernel that a loop inside one call launches: products of experts"),
      choice<&S::launches>(
          "launches",
          {{"kernels", LaunchCounts::kernels}, {"megatron", LaunchCounts::megatron}, {"eager", LaunchCounts::eager}},
          kDefault,
          "what of a layer costs the host one: kernels, or modules of Megatron-Core or of an eager model; "
          "modules always where there are experts"),
      field<&S::host_backward_factor>("host_backward_factor", number(0, 10), kDefault,
                                      "of it in the backward: the autograd thread launches faster"),
      choice<&S::attention_kernel>("attention_kernel",
                                   {{"flash-2", AttentionKernel::flash2},
                                    {"flash-3", AttentionKernel::flash3},
                                    {"cudnn", AttentionKernel::cudnn}},
                                   kDefault, "who wrote the fused attention kernel"),
      field<&S::attention_rate>("attention_rate", number_above(0, 10), kDefault, "relative to the published kernel"),
      choice<&S::fp8_scaling>(
          "fp8_scaling",
          {{"tensorwise", Fp8Scaling::tensorwise},
           {"current", Fp8Scaling::current},
           {"rowwise", Fp8Scaling::rowwise},
           {"blockwise", Fp8Scaling::blockwise},
           {"mx", Fp8Scaling::mx}},
          kDefault,
          "what shares one scale in fp8; current: a tensor, whose maximum is looked for before each "
          "cast; tensorwise: of a maximum that is known"),
      field<&S::sharded_sends>("sharded_sends", boolean(), kDefault,
                               "each tensor rank sends its part, gathered on arrival"),
      field<&S::blocking_sends>("blocking_sends", boolean(), kDefault, "a send is waited for"),
      choice<&S::gradient_overlap>("gradient_overlap",
                                   {{"never", GradientOverlap::never},
                                    {"without-pipeline", GradientOverlap::without_pipeline},
                                    {"always", GradientOverlap::always}},
                                   kDefault, "when gradients are reduced under the backward"),
      field<&S::gather_overlap>("gather_overlap", boolean(), kDefault,
                                "ZeRO-1 gathers what a step has updated under the forward of the next one"),
      field<&S::bucket_parameters>("bucket_parameters", whole(0, 1e12), kDefault,
                                   "whose gradients are reduced at a time, and which ZeRO-1 gathers so; 0: 25 MB"),
      field<&S::bucket_parameters_per_replica>("bucket_parameters_per_replica", whole(0, 1e12), kDefault,
                                               "or so many times the replicas, where that is more"),
      field<&S::fp8_gather>("fp8_gather", boolean(), kDefault,
                            "with precision fp8 replicas gather the parameters of layers in 8 bits"),
      field<&S::bf16_gradients>("bf16_gradients", boolean(), kDefault,
                                "training in bf16, fp8 and fp4 keeps and reduces gradients in bf16, where "
                                "`training.gradient_precision` does not say"),
      choice<&S::zero1_reduces>("zero1_reduces", {{"shards", Zero1Reduces::shards}, {"all", Zero1Reduces::all}},
                                kDefault,
                                "what ZeRO-1 reduces: shards to their owners, or all gradients to everybody "
                                "(DeepSpeed's `reduce_scatter: false`)"),
      field<&S::sharded_tensors>("sharded_tensors", whole(1, 1000), kDefault,
                                 "ZeRO-3: calls per layer to gather it; 1: one flat buffer"),
      field<&S::sharded_tensor_latency>("sharded_tensor_latency", time(), kDefault,
                                        "of such a call per rank, with several tensors a layer"),
      field<&S::sharded_tensor_efficiency>("sharded_tensor_efficiency", fraction(), kDefault,
                                           "share of a node's NICs that such a call reaches"),
      choice<&S::selective_recompute>(
          "selective_recompute",
          {{"attention", SelectiveRecompute::attention}, {"operators", SelectiveRecompute::operators}}, kDefault,
          "attention: its core; operators: all but attention and every second matrix product"),
      field<&S::early_stop>("early_stop", boolean(), kDefault,
                            "recomputation stops before the last product of a layer (torch 2.1)"),
      field<&S::compiled>("compiled", boolean(), kDefault, "torch.compile fuses memory-bound kernels"),
      field<&S::separate_projections>("separate_projections", boolean(), kDefault,
                                      "q, k, v and gate, up are products of their own"),
      field<&S::async_tensor>("async_tensor", boolean(), kDefault,
                              "products in pieces over their gathers and scatters; with sequence parallelism"),
      field<&S::weight_gradient_overlap>(
          "weight_gradient_overlap", boolean(), kDefault,
          "the reduction of an input's gradient over the tensor group runs beside the gradient of the weights"),
      choice<&S::cuda_graph>("cuda_graph",
                             {{"none", CudaGraph::none},
                              {"attention", CudaGraph::attention},
                              {"router", CudaGraph::router},
                              {"attention+router", CudaGraph::attention_router},
                              {"full", CudaGraph::full}},
                             kDefault, "what of a layer with experts is launched at once; full: the whole iteration"),
      choice<&S::dispatcher>(
          "dispatcher",
          {{"nccl", Dispatcher::nccl}, {"deepep", Dispatcher::deepep}, {"hybridep", Dispatcher::hybridep}}, kDefault,
          "who sends tokens to their experts"),
      field<&S::dispatch_sms>("dispatch_sms", whole(0, 1000), kDefault,
                              "multiprocessors that its kernels hold; 0: as they are shipped"),
      field<&S::room_for_dispatch>(
          "room_for_dispatch", boolean(), kDefault,
          "products beside an exchange of tokens are launched on the multiprocessors that it leaves (DeepGEMM's "
          "set_num_sms); otherwise persistent products take a second round (gpu.persistent_gemms)"),
      field<&S::dispatch_overhead>("dispatch_overhead", time(), kDefault,
                                   "of sending tokens to their experts, or back, besides their bytes"),
      field<&S::fp8_dispatch>("fp8_dispatch", boolean(), kDefault,
                              "tokens travel to their experts in 8 bits, and back in 16 (DeepSeek-V3)"),
      field<&S::expert_overlap>("expert_overlap", boolean(), kDefault,
                                "all-to-alls of experts run under the passes of another micro-batch"),
      field<&S::shared_expert_overlap>("shared_expert_overlap", boolean(), kDefault,
                                       "all-to-alls of experts run under the shared experts"),
      field<&S::fused_router>("fused_router", boolean(), kDefault,
                              "of experts: softmax, top-k and the loss of balance in fused kernels"),
      field<&S::fused_grouped_mlp>("fused_grouped_mlp", boolean(), kDefault,
                                   "products of experts with activation and casts in one kernel"),
      field<&S::fused_expert_activation>(
          "fused_expert_activation", boolean(), kDefault,
          "activation of experts in one kernel; else a clamped GLU with biases, operation by operation (GPT-OSS)"),
      field<&S::host_bound_to_cores>("host_bound_to_cores", boolean(), kDefault,
                                     "each process launches from cores of its own"),
      field<&S::dropout_forward>("dropout_forward", number_above(0, 10), kDefault,
                                 "bytes of kernels with dropout, as they last over their bandwidth: forward"),
      field<&S::dropout_backward>("dropout_backward", number_above(0, 10), kDefault, "and backward"),
      field<&S::compiled_traffic>("compiled_traffic", number_above(0, 1), kDefault,
                                  "what torch.compile leaves of the bytes of memory-bound kernels"),
      field<&S::permuted_traffic>("permuted_traffic", number_above(0, 10), kDefault,
                                  "of permutations around experts, over what they must move"),
      field<&S::activated_traffic>("activated_traffic", number_above(0, 10), kDefault, "of activations of experts"),
      field<&S::fused_activation>("fused_activation", number_above(0, 1), kDefault,
                                  "what `fused_grouped_mlp` leaves of the latter"),
      field<&S::zero3_launches>("zero3_launches", number(0, 1000), kDefault,
                                "with zero 3, also on one GPU, fetching and releasing the modules of a layer takes as "
                                "long as so many launches, in each pass (hooks of DeepSpeed)"),
      field<&S::fused_softmax>("fused_softmax", boolean(), kDefault,
                               "of attention without a kernel of its own, scale, mask and softmax are one in 16 bits"),
      field<&S::gate_reduced_apart>("gate_reduced_apart", boolean(), kDefault,
                                    "gate and up each reduce the gradient of their input over the tensor group"),
      field<&S::gather_copy_bytes>("gather_copy_bytes", number(0, 100), kDefault,
                                   "traffic per parameter that zero 3 has gathered, of joining its parts"),
      field<&S::expert_slices>("expert_slices", boolean(), kDefault,
                               "experts go one by one over slices of one tensor of all, whose gradient is cleared and "
                               "added up for each of them (GraniteMoe of transformers)"),
      field<&S::unbound_host>("unbound_host", number_above(0, 10), kDefault,
                              "launches without `host_bound_to_cores` take so much longer"),
      field<&S::dispatch_nvlink_share>("dispatch_nvlink_share", fraction(), kDefault,
                                       "of NVLink that NCCL's all-to-all of experts reaches"),
      field<&S::dispatch_nic_share>("dispatch_nic_share", fraction(), kDefault,
                                    "of NICs that NCCL's all-to-all of experts reaches, and HybridEP"),
      field<&S::nic_share>(
          "nic_share", fraction(), kDefault,
          "of what collectives reach over NICs by themselves (`links.scale_out.efficiency`), in a step "
          "of training"),
      field<&S::fp32_adapters>("fp32_adapters", boolean(), kDefault,
                               "low-rank adapters compute in fp32 beside products in 16 bits (PEFT)"),
      field<&S::autocast>("autocast", boolean(), kDefault,
                          "products of adapters in fp32 have 16 bits, between casts (torch's autocast)"),
      field<&S::adapter_dropout>("adapter_dropout", boolean(), kDefault,
                                 "what goes into an adapter goes through a dropout, and is kept"),
      field<&S::keeps_quantised_inputs>("keeps_quantised_inputs", boolean(), kDefault,
                                        "products by quantised matrices keep what they read (bitsandbytes up to 0.42)"),
      field<&S::fp32_stream>("fp32_stream", boolean(), kDefault,
                             "what goes from layer to layer has fp32 (prepare_model_for_kbit_training of PEFT)"),
      field<&S::transient_gradients>("transient_gradients", boolean(), kDefault,
                                     "gradients are allocated when a backward has made them, and given back after the "
                                     "step"),
      field<&S::foreach_step>("foreach_step", boolean(), kDefault,
                              "AdamW goes over all tensors operation by operation (torch's for-each): it moves three "
                              "times as much, and takes the roots of all second moments before it uses the first: one "
                              "more moment while it steps"),
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
          "cross-entropy: Megatron's, the same with its softmax in place of the fp32 logits, torch's "
          "kernels one by one, or fused; compiled: torch's, fused with `compiled`; chunked: that, with the "
          "head, chunk by chunk of the tokens (torchtitan); classifier: likewise, in a kernel that puts the gradient "
          "in place of the logits (llm.c, LLM.Q); linear-fused: likewise, gradients in the forward (Liger)"),
      field<&S::loss_chunks>("loss_chunks", whole(0, 4096), kDefault,
                             "that tokens are cut into for loss chunked, classifier or linear-fused; 0: 8, 1, or as "
                             "many as Liger makes, vocabulary / hidden"),
      field<&S::saves_casts>("saves_casts", boolean(), kDefault,
                             "in fp8 the narrow copy of what a product reads is kept for its weight gradient"),
      field<&S::saves_gathered>("saves_gathered", boolean(), kDefault,
                                "with sequence parallelism: gathered inputs are kept for the weight gradient"),
      field<&S::keeps_stage_output>("keeps_stage_output", boolean(), kDefault,
                                    "a stage's output is kept from its forward to its backward"),
      field<&S::flat_bucket>("flat_bucket", boolean(), kDefault,
                             "gradients are copied into a flat buffer before they are reduced, as large as a bucket"),
      field<&S::lazy_modules>("lazy_modules", boolean(), kDefault,
                              "kernels of libraries are loaded when they are first called; else all at once "
                              "(`cluster.gpu.eager_context`)"),
      field<&S::flat_gradient_bytes>("flat_gradient_bytes", number(0, kMostTraffic), kDefault,
                                     "per parameter: a flat buffer beside the gradients"),
      field<&S::step_gradient_bytes>("step_gradient_bytes", number(0, kMostTraffic), kDefault,
                                     "per parameter: fp32 copies of fp16 gradients while an unsharded optimizer steps"),
      field<&S::workspace>("workspace", size(), kDefault, "of the matrix library"),
      field<&S::nccl>("nccl", version(), kDefault, "NCCL's version: which algorithms of collectives there are"),
      field<&S::native_kernels>("native_kernels", boolean(), kDefault,
                                "this program's kernels on exact buffers: what `measure` performs"),
      aside<&S::source>("citations move no answer"), aside<&S::sources>("citations move no answer"),
      aside<&S::assumed>("citations move no answer"));
  return all;
}

}  // namespace rehearsal::models
