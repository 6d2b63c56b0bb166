// Transformers as operators: parameters, FLOPs, bytes moved, activations kept. Dense ones (GPT, Llama) and mixtures of
// experts. Pure functions of a configuration and a shard; no device, no time. Equations with their sources:
// models/README.md.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/kernels.hpp"
#include "base/sources.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "models/layers.hpp"
#include "models/offload.hpp"
#include "models/optimizer.hpp"

namespace rehearsal::models {

enum class Family : std::uint8_t {
  gpt,
  llama,
  mlp,  // hidden -> ffn -> hidden, no residual; our own kernels only
  moe,  // llama whose feed-forward layers are experts, but for the first `dense_layers`
  // gpt in encoder and decoder halves: what layer l < layers / 2 makes is added to what layer layers - 1 - l gets (the
  // additive form of Bao et al., arXiv 2209.12152, figure 2a, ablation 1)
  u_transformer
};

// A second, smaller network in front, whose rows take the places of tokens (ViT, 2010.11929, section 3.1; LLaVA,
// 2304.08485, section 4.1): patches of pictures pass a product and `layers` in which those of one picture see each
// other, both ways, and a projector makes rows of the model of them.
struct Vision {
  enum class Projector : std::uint8_t {
    mlp,    // a norm; `merge` patches side by side; two products with a GELU between them (Qwen2-VL, 2409.12191, 2.1)
    linear  // the mean of `merge` patches; a norm and one product (Gemma 3, 2503.19786, section 2.1)
  };
  Family family = Family::gpt;  // with layer norms and biases, or llama without
  std::int64_t layers = 0, hidden = 0, heads = 0, head_dim = 0, ffn = 0;
  FfnKind ffn_kind = FfnKind::gelu;
  bool qk_norm = false;
  std::int64_t patch = 0;      // values of a patch: pixels x channels x frames
  std::int64_t positions = 0;  // of a table that is added to patches
  std::int64_t merge = 1;      // patches that become one row
  Projector projector = Projector::mlp;
  std::int64_t projector_ffn = 0;
  std::int64_t deepstack = 0;  // further projectors, of layers in between (DeepStack, 2406.04334)
  // Rows of a sequence that come from here, and those of one picture.
  std::int64_t tokens = 0, picture_tokens = 0;
  bool frozen = false;  // it does not learn
  bool operator==(const Vision&) const = default;

  std::int64_t pictures() const { return (tokens + picture_tokens - 1) / picture_tokens; }  // of a sequence
  std::int64_t patches() const { return picture_tokens * merge; }                           // of a picture
  // What a projector's first product reads, and what its last one does.
  std::int64_t merged() const { return projector == Projector::mlp ? hidden * merge : hidden; }
  std::int64_t projected() const { return projector == Projector::mlp ? projector_ffn : hidden; }
};

struct Transformer {
  std::string name;
  Family family = Family::gpt;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocabulary = 0, sequence = 0;
  FfnKind ffn_kind = FfnKind::gelu;
  bool tie_embeddings = true;
  bool learned_positions = true;  // of gpt; without, attention sees distances (ALiBi)
  bool embedding_norm = false;    // a layer norm behind the embedding of gpt (BLOOM, arXiv 2211.05100, section 3.2)
  std::optional<Mla> mla;
  // Each layer with experts has `experts` of width `expert_ffn`, of which a token uses `experts_per_token`, and shared
  // ones that every token uses, `shared_ffn` wide in all. The first `dense_layers` are dense, `ffn` wide.
  std::int64_t experts = 0, experts_per_token = 0, shared_experts = 0, expert_ffn = 0, shared_ffn = 0, dense_layers = 0;
  std::int64_t expert_latent = 0;  // columns that experts work on; 0: `hidden`
  // Multi-token prediction (DeepSeek-V3, 2412.19437, section 2.2): modules of one more layer each, beside `layers`,
  // that share both ends.
  std::int64_t mtp_layers = 0;
  // What `heads`, `kv_heads`, `head_dim` and `mla` leave open of every layer's mixer; and all layers, where they are
  // listed: runs of equal ones. Empty: as the family has them.
  Mixer mixing{};
  std::vector<LayerTable::Row> listed{};
  std::optional<Vision> vision{};
  bool encoder = false;  // tokens see later ones, too (BERT, 1810.04805, section 3): training is not causal
  std::string source;

  bool is_moe() const { return experts > 0; }
  // With layer norms, biases and learned positions; otherwise like llama.
  bool is_gpt() const { return family == Family::gpt || family == Family::u_transformer; }
  // Of every layer that is not listed.
  Mixer mixer() const {
    Mixer all = mixing;
    all.heads = heads, all.kv_heads = kv_heads, all.head_dim = head_dim, all.mla = mla;
    return all;
  }
  // Skip connections: number n goes from layer n to layer layers - 1 - n.
  std::int64_t skips() const { return family == Family::u_transformer ? layers / 2 : 0; }
};

// All parameters, unsharded and unpadded: weights, biases and norms of GPT (12 l h^2 (1 + 13/(12h)) + (V+s)h with tied
// embeddings, Megatron 2021 eq. 2, and the 2 h of the final norm, which that leaves out), or of Llama and mixtures of
// experts (no biases, no learned positions, RMS norms).
double parameters(const Transformer& model);
// The parameters that one token uses: all but the experts that it is not sent to. Both ends count, including the table
// that is only looked up, and modules of multi-token prediction.
double active_parameters(const Transformer& model);

// Model FLOPs of one iteration (forward + backward without recomputation) over `sequences`: matrix multiplications and
// full attention, for GPT Korthikanti 2205.05198 eq. 7: 72 B l s h^2 (1 + s/(6h) + V/(12 h l)), generalised to GQA,
// SwiGLU, latent attention and the experts that a token is sent to. Counts what training needs: no gradients of weights
// that are frozen (adapters, which are small, are left out), and of experts only rows that are kept.
struct ModelWork {
  bool frozen = false;
  double kept = 1;                  // of the rows of experts: Routed::kept
  double useful = 1, attended = 1;  // of the tokens, and of their sequence that these may see
};
Flops model_flops(const Transformer& model, std::int64_t sequence, std::int64_t sequences, ModelWork work = {});
// Of them, forward: the two products of full attention of one sequence, in all layers.
Flops attention_flops(const Transformer& model, std::int64_t sequence);

enum class Recompute : std::uint8_t { none, selective, full };
// Modules that selective recomputation repeats, as Megatron-Core names them (`--recompute-modules`); mlp_act is the
// activation of layers without experts (Megatron-Kwai's --kaimm-recompute-mlp-activation-func).
enum class RecomputeModule : std::uint8_t {
  core_attn,
  layernorm,
  mla_up_proj,
  moe_act,
  mlp,
  moe,
  shared_experts,
  mlp_act
};
// What matrices of layers are held in that do not learn, where adapters do: as in training; in eight bits; or in four.
// nf4: a scale of fp32 for each 64 (QLoRA, 2305.14314, section 3), or one of eight bits, of which 256 share one of fp32
// (its double quantisation); gptq: a scale of fp16 and a zero of four bits for each 128 (AutoGPTQ, group_size 128).
enum class FrozenPrecision : std::uint8_t { training, fp8, int8, nf4, nf4_double, gptq };
// Bytes of a parameter. Of int8 (LLM.int8, 2208.07339, section 2.1) and fp8 the scales are of rows, and not counted.
constexpr double bytes_of(FrozenPrecision precision, double in_training) {
  switch (precision) {
    case FrozenPrecision::training:
      return in_training;
    case FrozenPrecision::fp8:
    case FrozenPrecision::int8:
      return 1;
    case FrozenPrecision::nf4:
      return .5 + 4. / 64;
    case FrozenPrecision::nf4_double:
      return .5 + 1. / 64 + 4. / (64 * 256);
    case FrozenPrecision::gptq:
      return .5 + 2. / 128 + .5 / 128;
  }
  return in_training;
}
// Values of a layer that are kept for the backward in fewer than 16 bits on request: what latent attention widens, what
// attention gives, rows that experts were sent, and what their activations (shared ones' too) or those of other layers
// read.
enum class StoredValue : std::uint8_t { latents, attention_out, dispatched, moe_act, mlp_act };
// Linear layers that low-rank adapters may stand beside (LoRA, 2106.09685), as Megatron-Core names them.
enum class AdaptedLayer : std::uint8_t { linear_qkv, linear_proj, linear_fc1, linear_fc2 };
enum class AttentionKind : std::uint8_t { unfused, flash };
// How attention sees a sequence that is cut over the context group: keys and values travel around it (2310.01889), are
// gathered (Llama 3, 2407.21783, section 3.3.2), or heads are cut instead meanwhile (Ulysses, 2309.14509).
enum class ContextKind : std::uint8_t { ring, all_gather, all_to_all };
// Unfused: every elementwise operation is a kernel of its own, which reads its operands from memory and writes its
// result.
enum class Kernels : std::uint8_t { fused, unfused };
// In fp16 gradients of a loss that is multiplied by a scale; dynamic: the scale doubles from time to time, and where
// gradients overflow it is halved and the step skipped (Micikevicius et al., arXiv 1710.03740, section 3.2).
enum class LossScaling : std::uint8_t { none, dynamic };

// The buffer that gradients are copied into before they are reduced: none or a flat one, as the framework does; one
// that grows with the model; or one of constant size, used again and again (ZeRO-R's CB, arXiv 1910.02054, section
// 6.2).
enum class Buffers : std::uint8_t { framework, growing, constant };

// The allocator of tensors: the caching allocator of the framework, the same with expandable segments, or an exact one
// that never reserves more than what lives.
enum class Allocator : std::uint8_t { caching, expandable, exact };

// The scenario's `training`, as far as it changes how much work or memory a step is.
struct Training {
  Precision precision = Precision::bf16;
  Precision gradient_precision = Precision::fp32;
  const Optimizer* optimizer = &default_optimizer();
  Moments moments = Moments::fp32;
  bool master_copy = true;             // of weights in 16 bits, in fp32; without it the optimizer steps in 16 bits
  bool optimizer_in_backward = false;  // it steps on each tensor as soon as its gradient is there
  // Only adapters of this rank are trained; 0: everything is. In these layers; empty: in all.
  std::int64_t adapter_rank = 0;
  std::set<AdaptedLayer> adapted_layers;
  bool adapts_experts = false;  // beside the products of each expert, too
  bool learns_ends = false;     // copies of embedding and head, beside the adapters
  FrozenPrecision frozen_precision = FrozenPrecision::training;
  bool frozen() const { return adapter_rank > 0; }
  bool quantises() const { return frozen() && frozen_precision != FrozenPrecision::training; }
  bool adapts(AdaptedLayer layer) const {
    return frozen() && (adapted_layers.empty() || adapted_layers.contains(layer));
  }
  // Bytes per parameter of the optimizer's states: moments, and a master copy where weights have 16 bits.
  double optimizer_state_bytes() const {
    return optimizer->moments * bytes_of(moments) +
           (bytes_per_element(precision) < 4 && master_copy && optimizer->master ? 4 : 0);
  }
  // Inside the backward: no gradient stays.
  bool updates_at_once() const { return optimizer->in_backward || optimizer_in_backward; }
  GradientClipping clipping = GradientClipping::none;
  LossScaling loss_scaling = LossScaling::none;
  std::optional<double> overflow_rate;  // steps that are skipped, of all
  bool skipped = false;                 // this step is one of them
  bool scales_loss() const { return loss_scaling != LossScaling::none; }
  // Without a given rate: the scale doubles after kScaleWindow good steps and then overflows until it is halved: once,
  // or twice with a hysteresis of 2. Defaults of Megatron-LM (loss_scale_window, hysteresis) and
  // DeepSpeed (loss_scale_window, hysteresis).
  static constexpr double kScaleWindow = 1000;
  double overflows() const {
    const double each = optimizer->hysteresis;
    return !scales_loss() ? 0 : overflow_rate.value_or(each / (kScaleWindow + each));
  }
  bool norms_first() const { return updates_at_once() && clipping == GradientClipping::norm; }
  Recompute recompute = Recompute::none;
  // Which layers of a stage are recomputed: of its first `recompute_layers` (all) every `recompute_every`-th.
  std::int64_t recompute_every = 1;
  std::optional<std::int64_t> recompute_layers;
  bool recomputes(std::int64_t layer) const {  // counted from 0 in its stage
    return layer < recompute_layers.value_or(layer + 1) && (layer + 1) % recompute_every == 0;
  }
  bool recomputes_alike() const {  // all layers, or none
    return recompute == Recompute::none || (recompute_every == 1 && !recompute_layers);
  }
  std::set<RecomputeModule> recompute_modules;  // of selective; empty: what the framework repeats
  // Kept in fp8 with a scale for each 128, and in 12 bits (E5M6 of DeepSeek-V3, 2412.19437, section 3.3.3).
  std::set<StoredValue> stored_fp8, stored_e5m6;
  bool stores(StoredValue value) const { return stored_fp8.contains(value) || stored_e5m6.contains(value); }
  AttentionKind attention = AttentionKind::flash;
  ContextKind context = ContextKind::ring;
  bool context_balance = true;  // of 2c pieces, rank i has pieces i and 2c-1-i: causal attention is even
  Kernels kernels = Kernels::fused;
  bool causal = true;
  bool balances_context() const { return causal && context_balance; }
  // Data parallelism. Gradients are reduced when at least `bucket` of them are complete; if not given, as the framework
  // does (plan::Plan::reduced_at_a_time).
  std::optional<Bytes> bucket;
  Buffers buffers = Buffers::framework;
  std::optional<Bytes> buffer_size;  // in place of `bucket`
  // ZeRO-3, if given: parts of the model gathered ahead of the one that computes; whether parameters are gathered again
  // for the backward instead of kept from the forward; whether other parts compute meanwhile (else as the framework
  // overlaps gradients; with ZeRO-1, as it overlaps the gather of updated parameters).
  std::optional<std::int64_t> prefetch;
  std::optional<bool> reshard_after_forward, overlap_gathers;
  // GPUs that keep a part each of what a forward has gathered, and gather that again; 0: all, the parts of the step.
  std::int64_t reshard_over = 0;
  // With ZeRO-3 parameters are gathered in 8 bits, and gradients reduced in 4 (qwZ and qgZ of ZeRO++, 2306.10209).
  bool quantised_gathers = false, quantised_reductions = false;
  std::int64_t gathered_ahead() const { return prefetch.value_or(1); }
  bool reshards() const { return reshard_after_forward.value_or(true); }
  Offload offload;
  // Checkpoints are cut over the tensor group (ZeRO-R, 1910.02054, section 6.1), on the device or on the host.
  CutCheckpoints partition_activations = CutCheckpoints::none;
  bool cuts_checkpoints() const { return partition_activations != CutCheckpoints::none; }
  Tier checkpoints_on() const {
    const Tier parts = partition_activations == CutCheckpoints::host ? Tier::host : Tier::device;
    return std::max(parts, recompute == Recompute::full ? offload.activations : Tier::device);
  }
  // Share of what layer `layer` of a stage, which is not recomputed as a whole, keeps and sends away; 0: it stays.
  double share_away(std::int64_t layer) const {
    if (offload.activations == Tier::device || recompute == Recompute::full) return 0;
    return layer < offload.activation_layers.value_or(layer + 1) ? offload.activation_share.value_or(1) : 0;
  }
  bool leaves_device() const { return offload.any() || checkpoints_on() != Tier::device; }
  Allocator allocator = Allocator::caching;
  // Checkpoints, and gradients before their reduction, are copied into memory that is allocated for them once (ZeRO-R
  // Md, 1910.02054, section 6.3).
  bool defragment = false;
  bool keeps_checkpoints() const { return recompute == Recompute::full && checkpoints_on() == Tier::device; }
  double learning_rate = 1e-3, weight_decay = .01;  // of real training; no prediction depends on them
};

// When the data-parallel reduction may run under the backward pass.
enum class GradientOverlap : std::uint8_t { never, without_pipeline, always };

// What ZeRO-1 reduces: each shard to its owner, or all gradients to all ranks.
enum class Zero1Reduces : std::uint8_t { shards, all };

// What selective recomputation repeats: the attention core (Megatron: the scores are large and cheap), or every
// operator but attention and every second GEMM (torchtitan).
enum class SelectiveRecompute : std::uint8_t { attention, operators };
// Which fused attention kernel runs: FlashAttention-2 where a GPU has no cuDNN or FlashAttention-3 kernel.
enum class AttentionKernel : std::uint8_t { flash2, flash3, cudnn };
// The unit of one scale in fp8: a tensor, a row of a GEMM operand, a block of 128 of its elements (2412.19437, 3.3), or
// one of 32, whose scale is a power of two that the hardware applies (MXFP8, Blackwell).
// current: one scale a tensor, too, of the maximum that it has now, which a kernel of its own looks for.
enum class Fp8Scaling : std::uint8_t { tensorwise, current, rowwise, blockwise, mx };
constexpr bool scales_tensors(Fp8Scaling scaling) {
  return scaling == Fp8Scaling::tensorwise || scaling == Fp8Scaling::current;
}
// The cross-entropy: Megatron's over a slice of the vocabulary, whose softmax is another fp32 array or overwrites the
// fp32 copy (Megatron-Core); or torch's kernels, one after the other. The latter's fused relatives (flash-attn's,
// Transformer Engine's) never make a copy in fp32. Compiled: torch's, of which torch.compile makes such a one wherever
// the framework compiles. Chunked: head and loss of some tokens after those of others, forward and backward of each in
// turn, so that logits of one chunk alone are there, by the kernels of `compiled`. Linear-fused: chunks, too, but their
// gradients are made in the forward, in place of the logits, and wait for the backward (Liger).
enum class LossKernels : std::uint8_t {
  vocabulary_parallel,
  in_place,
  torch,
  fused,
  compiled,
  chunked,
  classifier,
  linear_fused
};

// The part of a layer with experts that runs as a CUDA graph, without launches of its own: attention, norm and routing,
// both, or the whole iteration.
enum class CudaGraph : std::uint8_t { none, attention, router, attention_router, full };
// What of a layer costs the host a launch: kernels, or the modules of Megatron-Core or of an eager model (of layers
// with experts always modules).
enum class LaunchCounts : std::uint8_t { kernels, megatron, eager };
// How tokens are sent to their experts: NCCL's all-to-all, or kernels that send a token to each node once.
enum class Dispatcher : std::uint8_t { nccl, deepep, hybridep };

// How a framework behaves (configs/frameworks): documented facts of its day, never fits to a run.
struct Framework {
  std::string name;
  bool dropout = false;
  bool fused_accumulation = false;   // weight-gradient GEMMs accumulate into the gradient buffer themselves
  double accumulate_bytes_fp16 = 6;  // traffic per parameter and micro-batch to add a gradient
  double accumulate_bytes_bf16 = 10;
  double optimizer_bytes = 44;       // traffic per parameter of one optimizer step
  double scaling_bytes = 8;          // the same for the check for infinities, if the loss is scaled
  double host_optimizer_bytes = 28;  // the same for an optimizer on the host
  double optimizer_overhead = 2e-3;  // seconds of a step without its traffic: many small kernels, norms, the loss scale
  double host_seconds_per_kernel = 0;
  double host_loop_time = 7e-6;  // seconds of a kernel that a loop inside one call launches
  LaunchCounts launches = LaunchCounts::kernels;
  bool launch_blocking = false;       // CUDA_LAUNCH_BLOCKING=1: the host launches nothing while a kernel runs
  double host_backward_factor = .62;  // the autograd thread launches faster than the Python forward
  AttentionKernel attention_kernel = AttentionKernel::flash2;
  double attention_rate = 1;  // of a fused attention kernel, relative to the published one of its name
  Fp8Scaling fp8_scaling = Fp8Scaling::tensorwise;
  bool sharded_sends = false;  // each tensor rank sends 1/t, gathered on arrival
  bool blocking_sends = false;
  GradientOverlap gradient_overlap = GradientOverlap::never;
  // ZeRO-1: updated parameters are gathered under the forward of the next step, bucket by bucket, instead of right
  // after the update (Megatron-Core's --overlap-param-gather).
  bool gather_overlap = false;
  // Parameters per gradient bucket: this number, or this number for each replica if that is more (Megatron-Core's
  // DistributedDataParallel: 40 million, 1 million). 0: torch's DDP, 25 MB (bucket_cap_mb).
  std::int64_t bucket_parameters = 0, bucket_parameters_per_replica = 0;
  // Layers are gathered in 8 bits if GEMMs read 8 bits with a scale per tensor or per block, which is sent along
  // (torchtitan's float8 all-gather, Transformer Engine's primary weights).
  bool fp8_gather = false;
  bool bf16_gradients = false;  // with bf16 or narrower they are summed and reduced in bf16, unless a scenario says
  Zero1Reduces zero1_reduces = Zero1Reduces::shards;
  // ZeRO-3 that gathers and reduces tensor by tensor instead of whole layers: calls per layer (1 = one flat buffer),
  // the latency of such a call per rank of the group, and the share of a node's NICs that it reaches.
  std::int64_t sharded_tensors = 1;
  double sharded_tensor_latency = 0, sharded_tensor_efficiency = 1;
  SelectiveRecompute selective_recompute = SelectiveRecompute::attention;
  bool early_stop = false;  // recomputation stops before the last GEMM of a layer (torch >= 2.1)
  bool compiled = false;    // torch.compile fuses memory-bound kernels
  // Queries, keys and values, and gate and up of SwiGLU, are products of their own for code that counts GEMMs
  // (selective_recompute) or looks for one whose result is scattered (async_tensor). Priced as one.
  bool separate_projections = false;
  // Tensor-parallel gathers and scatters run under the GEMM they feed or follow, piece by piece (needs sequence
  // parallelism).
  bool async_tensor = false;
  // The tensor-parallel reduction of an input gradient runs beside the weight gradient.
  bool weight_gradient_overlap = false;
  // Of mixtures of experts.
  CudaGraph cuda_graph = CudaGraph::none;
  Dispatcher dispatcher = Dispatcher::nccl;
  double dispatch_overhead = 60e-6;     // seconds of sending tokens to their experts, or back, besides their bytes
  std::int64_t dispatch_sms = 0;        // multiprocessors that its kernels hold; 0: their default
  bool room_for_dispatch = false;       // products beside an exchange take no more than the others
  bool fp8_dispatch = false;            // tokens travel to their experts in 8 bits, and back in 16 (DeepSeek-V3)
  bool expert_overlap = false;          // all-to-alls run under the passes of another micro-batch
  bool shared_expert_overlap = false;   // or under the shared experts
  bool fused_router = false;            // softmax, top-k and the loss of balance in fused kernels (moe_router_fusion)
  bool fused_grouped_mlp = false;       // products of the experts with activation and casts in one kernel
  bool fused_expert_activation = true;  // else every operation of a clamped GLU with biases is a kernel (GPT-OSS)
  bool host_bound_to_cores = true;      // each process launches from cores of its own
  // Fitted factors (configs/constants.yaml has what each was fitted on): of the bytes of kernels with dropout over
  // their bandwidth, of what torch.compile leaves of memory-bound kernels, of permutations and activations around
  // experts and what a fused kernel leaves of the latter, of launches by processes that move between cores; shares of
  // NVLink and of NICs that all-to-alls of experts reach (of NVLink: NCCL's).
  double dropout_forward = 1.4, dropout_backward = .8, compiled_traffic = .6;
  double permuted_traffic = 1.4, activated_traffic = 3.4, fused_activation = .6;
  double zero3_launches = 0;   // of a layer and pass: what ZeRO-3 does around each of its modules, in launches
  bool fused_softmax = false;  // unfused attention with Megatron's kernel of scale, mask and softmax
  // Gate and up are column-parallel layers of their own: each reduces the gradient of its input over the tensor group.
  bool gate_reduced_apart = false;
  double gather_copy_bytes = 0;  // of a parameter that ZeRO-3 has gathered: copied to where its parts belong
  // An expert's matrices are slices of tensors of all experts; autograd clears such a tensor for each and adds them up.
  bool expert_slices = false;
  double unbound_host = 1.8, dispatch_nvlink_share = .35, dispatch_nic_share = .8;
  double nic_share = 1;  // of what collectives reach over NICs by themselves, in a step of training
  // Adapters in fp32 beside products in 16 bits, and a dropout of what goes into them (PEFT).
  bool fp32_adapters = false, adapter_dropout = false;
  bool autocast = false;  // products by such adapters in 16 bits: torch's autocast
  // Products by quantised matrices keep what they read, though nothing uses it (bitsandbytes up to 0.42).
  bool keeps_quantised_inputs = false;
  bool fp32_stream = false;  // what goes from layer to layer, in fp32 between products in 16 bits
  // Memory besides parameters, activations and the optimizer's states.
  // Gradients are allocated when a backward has made them, and given back after the step (zero_grad of torch 2.0).
  bool transient_gradients = false;
  bool foreach_step = false;  // AdamW takes the roots of all second moments before it uses the first (torch's for-each)
  LossKernels loss = LossKernels::vocabulary_parallel;
  std::int64_t loss_chunks = 0;  // of those in chunks; 0: 8, as many as Liger makes, or 1 of `classifier`
  bool saves_casts = false;  // the fp8 copy of what a product reads, for its weight gradient, instead of the original
  bool saves_gathered = false;      // with sequence parallelism the gathered GEMM inputs, for the weight gradient
  bool keeps_stage_output = false;  // a stage's output from its forward to its backward, beside the message
  bool flat_bucket = false;  // gradients are copied into a flat buffer, of a bucket's size, before they are reduced
  bool lazy_modules = true;  // kernels of libraries are loaded when they are first called (CUDA 11.7; by default 12.2)
  double flat_gradient_bytes = 0;  // per parameter, a flat buffer beside the gradients (DeepSpeed's ZeRO-1 of 2021)
  double step_gradient_bytes = 0;  // per parameter, fp32 copies of fp16 gradients while an unsharded optimizer steps
  Bytes workspace;                 // of the matrix library
  Version nccl = kNewestNccl;      // which collective algorithms there are
  bool native_kernels = false;     // the kernels of this program, on exact buffers: what `measure` performs
  std::string source;
  Sources sources;                   // key -> where its number comes from
  std::vector<std::string> assumed;  // keys that were not measured
};

// The part of a layer that one GPU holds and the tokens it sees.
struct Shard {
  std::int64_t tensor = 1;         // tensor-parallel degree t
  bool sequence_parallel = false;  // norms, dropouts and residuals split over the tensor group as well
  std::int64_t micro_batch = 1;    // sequences b
  std::int64_t sequence = 2048;    // tokens s of each
  std::int64_t microbatches = 1;   // per iteration: with more than one, gradients accumulate
  std::int64_t context = 1;        // GPUs that share a sequence
  std::int64_t vocabulary = 1;     // pipeline ranks that share both ends of the model, besides the tensor group
  bool lone_modules = false;       // of multi-token prediction: their losses are of other stages
  double attended = 1;             // share of its sequence that a token may see, on average: its own document
  // Pieces that go through one after the other (schedule::Problem::pieces), and the index of this one: it sees its own
  // tokens and those before.
  std::int64_t pieces = 1, piece = 0;
  // Experts fold tensor x context x data a second time (plan/mesh.hpp): GPUs that share the experts of a layer, and
  // those that share one.
  std::int64_t expert = 1, expert_tensor = 1;
  std::int64_t redundant_experts = 0;  // of a layer: replicas in addition to one of each
  // The optimizer updates a tensor as soon as its gradient is there, if no other rank adds to it (LOMO, AdaLOMO).
  bool updates_in_backward = false;
  std::int64_t experts_held(std::int64_t experts) const { return (experts + redundant_experts) / expert; }
  std::int64_t sequence_parts() const { return context * pieces; }
  std::int64_t tokens() const { return micro_batch * sequence / sequence_parts(); }
};

}  // namespace rehearsal::models
