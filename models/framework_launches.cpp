// What the host launches for a layer, where kernels are no measure of it: modules of Megatron-Core and of eager models,
// which cost the host a call of Python or of autograd each, whatever runs on the device.
//
// Counted in the sources that each line names; the forward, and the backward with the additions of gradients in hooks.
// A count has an error of a fifth; only its product with the price of a launch was ever held against steps (framework
// profiles, host_time_per_kernel).
#include <algorithm>
#include <cmath>

#include "models/framework_rewrite.hpp"

namespace rehearsal::models {
namespace {

// From Python or autograd, one by one; and in loops inside one call, for each expert that a rank holds and beside them.
struct Count {
  double forward = 0, backward = 0;
  double each_forward = 0, each_backward = 0, loop_forward = 0, loop_backward = 0;
};

// Megatron-LM d98e8a6, megatron/core/transformer/attention.py: norm and product of queries, keys and values, rotation,
// flash attention, projection, residual. Norms of queries and keys; gathers and scatters of the tensor group.
constexpr Count kAttention{8, 17}, kQueryKeyNorms{2, 6}, kTensorGroup{2, 3};
// multi_latent_attention.py, with the rotation in single operations, its default; a latent of the queries.
constexpr Count kLatent{15 + 14, 27 + 12}, kLatentQueries{2, 5}, kLatentTensorGroup{1, 2};
// transformer/mlp.py with Transformer Engine: norm and first product, activation, second product, residual; six
// tensors.
constexpr Count kFeedForward{4, 14};
// moe/router.py and moe_utils.py: softmax and top-k with the loss of balance, or with sigmoid, bias and scale
// (DeepSeek); in fused kernels (moe_router_fusion). The norm before.
constexpr Count kRouter{13 + 21, 9 + 11}, kSigmoid{9, 4}, kFusedRouter{12, 10}, kNorm{1, 3};
// moe/token_dispatcher.py and fused_a2a.py: up to the counts of tokens, for which the host waits, and from there on.
// The all-to-all counts, copies counts to the host and permutes (9 + 4 + 4) before it sends, and sorts on both sides.
constexpr Count kCounted{17}, kExchange{11, 13}, kCountedDeepep{8}, kDeepep{10, 10}, kCountedHybridep{4},
    kHybridep{4, 6};
constexpr Count kSharedExperts{8, 14}, kGlue{3, 2};  // moe/shared_experts.py, transformer_layer.py
// moe/experts.py, TEGroupedMLP: products of each expert and the events of four streams. In 8 bits casts; with scales
// for blocks each operand is quantised into rows and columns and its scales swizzled: per product 7.5 kernels, and as
// many tensors to be made, which cost the host as much (docs/discussions/deepseek-v3-gb200-optimization, 2.1.2).
constexpr double kBlockScaledProduct = 13;
constexpr Count kExperts{10, 12, 2, 4, 16, 32}, kScaledExperts{12, 16, 3, 6, 16, 32},
    kBlockScaledExperts{12, 16, 2 * kBlockScaledProduct, 4 * kBlockScaledProduct, 16, 32};
constexpr Count kGroupedMlp{6, 10};
constexpr Count kGraph{2, 2};      // of what was captured: a replay, and copies into it
constexpr Count kOverlap{15, 15};  // five nodes of a pass beside another's: streams, events, a backward of its own each
// Of one boundary of recomputation, in the backward, beside what it launches again: states of random numbers, a graph
// of its own, the storage of its result.
constexpr double kCheckpoint = 6;
// What a boundary launches again (the files above): the attention core with its views; a norm and its cast; products of
// latents, and the rotation in single operations; one activation.
constexpr double kCoreAgain = 3, kNormAgain = 2, kLatentsAgain = 13, kActivationAgain = 1;
// Hugging Face's eager layers (Qwen, Llama): counted in a Kineto trace (Qwen1.5-0.5B, H100), forward; the backward is
// what is left of the kernels of a step of Llama 1B (tests/fidelity/trainer_h100_kernels.csv). Of these, operations of
// two norms (8 each, 10 backward) and of the rotation of queries and keys (5 each, 6 backward) that fused kernels are
// not: one of a norm, one of a rotation, and one each backward.
constexpr Count kEager{49, 95}, kFusedAway{2 * 7 + 2 * 4, 2 * 9 + 2 * 5};
// Norms of queries and keys, and what autocast casts: seven weights, the inputs of five products, and their gradients
// (26 a layer are what a step of Llama 1B has more with it than in bf16, the same table).
constexpr Count kEagerHeadNorms{2 * 8, 2 * 10}, kAutocast{12, 14};
// transformers' GraniteMoe: router, sorting and rows of the chosen experts; of each expert two slices and two products,
// and backward two gradients of either, a cleared one of the slice, its copy and a sum.
constexpr Count kSlices{22, 20};
constexpr double kSliceForward = 4, kSliceBackward = 10;
// Launches of adapters and of copies of quantised matrices in a backward, over those in a forward: 8.6 over 6 (the same
// table).
constexpr double kBesideBackward = 1.4;

}  // namespace

// In launches from Python.
FrameworkRewrite::Launches FrameworkRewrite::module_launches() const {
  const auto& framework = run_.framework;
  Launches all;
  if (framework.cuda_graph == CudaGraph::full) return all;
  const double python = framework.host_seconds_per_kernel;
  const double loop = python > 0 ? framework.host_loop_time / python : 0;
  const auto held = has_experts() ? double(run_.shard.experts_held(layer_.ffn.experts)) : 0;
  const auto add = [&](double& forward, const Count& c) {
    forward += c.forward + loop * (c.each_forward * held + c.loop_forward);
    all.backward += c.backward + loop * (c.each_backward * held + c.loop_backward);
  };
  const double beside = double(frozen_launches(false)), beside_experts = double(frozen_launches(true));
  all.attention = beside, all.experts = beside_experts;
  all.backward = kBesideBackward * (beside + beside_experts);
  if (framework.launches == LaunchCounts::eager && (!has_experts() || framework.expert_slices)) {
    add(all.attention, kEager);
    if (layer_.mixer.qk_norm) add(all.attention, kEagerHeadNorms);
    if (framework.fp32_stream) add(all.attention, kAutocast);
    if (has_experts()) {
      add(all.router, kSlices);
      all.experts += kSliceForward * held, all.backward += kSliceBackward * held;
    }
    if (run_.training.kernels == Kernels::fused)
      all.attention -= kFusedAway.forward, all.backward -= kFusedAway.backward;
    all.backward += checkpoints(all.router + all.experts);
    return all;
  }
  const bool captured = captures_attention(), routed = captures_router();
  const auto& mixer = layer_.mixer;
  if (captured || routed) add(all.attention, kGraph);
  if (!captured && mixer.kind != MixerKind::none) {
    add(all.attention, mixer.mla ? kLatent : kAttention);
    if (mixer.mla && mixer.mla->query_rank > 0) add(all.attention, kLatentQueries);
    if (mixer.qk_norm) add(all.attention, kQueryKeyNorms);
    if (run_.cut()) add(all.attention, kTensorGroup);
    if (run_.cut() && mixer.mla) add(all.attention, kLatentTensorGroup);
  }
  if (!has_experts()) {
    if (layer_.ffn.width > 0) add(all.attention, kFeedForward);
    all.backward += checkpoints(0);
    return all;
  }
  if (!routed) {
    add(all.router, kNorm), add(all.router, framework.fused_router ? kFusedRouter : kRouter);
    if (mixer.mla && !framework.fused_router) add(all.router, kSigmoid);
  }
  if (run_.shard.expert > 1) {
    const auto of = [&](const Count& nccl, const Count& deepep, const Count& hybridep) {
      return framework.dispatcher == Dispatcher::nccl     ? nccl
             : framework.dispatcher == Dispatcher::deepep ? deepep
                                                          : hybridep;
    };
    if (!routed) add(all.router, of(kCounted, kCountedDeepep, kCountedHybridep));
    add(all.experts, of(kExchange, kDeepep, kHybridep));
  }
  if (layer_.ffn.shared_width > 0) add(all.router, kSharedExperts);
  const bool blocks = framework.fp8_scaling == Fp8Scaling::blockwise || framework.fp8_scaling == Fp8Scaling::mx;
  add(all.experts, framework.fused_grouped_mlp ? kGroupedMlp
                   : !run_.fp8()               ? kExperts
                   : blocks                    ? kBlockScaledExperts
                                               : kScaledExperts);
  add(all.experts, kGlue);
  if (framework.expert_overlap) add(all.router, kOverlap);
  all.backward += checkpoints(all.router + all.experts);
  return all;
}

bool FrameworkRewrite::captures_attention() const {
  return run_.framework.cuda_graph == CudaGraph::attention || run_.framework.cuda_graph == CudaGraph::attention_router;
}
bool FrameworkRewrite::captures_router() const {
  return run_.framework.cuda_graph == CudaGraph::router || run_.framework.cuda_graph == CudaGraph::attention_router;
}

// Products of latents are quantised again, too.
double FrameworkRewrite::latents_again() const {
  const double python = run_.framework.host_seconds_per_kernel;
  const bool blocks = run_.fp8() && !scales_tensors(run_.framework.fp8_scaling) && python > 0;
  const double queries = layer_.mixer.mla->query_rank > 0 ? kLatentQueries.forward : 0;
  return kLatentsAgain + queries + (blocks ? 2 * kBlockScaledProduct * run_.framework.host_loop_time / python : 0);
}

// Boundaries of recomputation that a layer has outside of captured graphs, and what they launch again; `of_experts` is
// what a forward launches from the router on.
double FrameworkRewrite::checkpoints(double of_experts) const {
  const auto& training = run_.training;
  const auto& mixer = layer_.mixer;
  if (training.recompute == Recompute::none) return 0;
  if (training.recompute_modules.empty()) return kCheckpoint + kCoreAgain;
  const bool attends = mixer.kind != MixerKind::none && !captures_attention(), routes = !captures_router();
  const bool experts = has_experts(), dense = layer_.ffn.width > 0 && !experts, shares = layer_.ffn.shared_width > 0;
  double count = 0;
  const auto boundary = [&](bool there, double again) { count += there ? kCheckpoint + again : 0; };
  for (const auto module : training.recompute_modules) switch (module) {
      case RecomputeModule::core_attn:
        boundary(attends, kCoreAgain);
        break;
      case RecomputeModule::layernorm:
        boundary(attends, kNormAgain);
        boundary(experts ? routes : dense, kNormAgain);
        break;
      case RecomputeModule::mla_up_proj:
        boundary(attends && mixer.mla.has_value(), latents_again());
        break;
      case RecomputeModule::moe_act:
        boundary(experts, kActivationAgain);
        break;
      case RecomputeModule::mlp:
        boundary(dense, kFeedForward.forward);
        break;
      case RecomputeModule::mlp_act:
        boundary(dense, kActivationAgain);
        break;
      case RecomputeModule::moe:
        boundary(experts, of_experts);
        break;
      case RecomputeModule::shared_experts:
        boundary(experts && shares, kSharedExperts.forward);
        break;
    }
  return count;
}

// The host learns from the GPU how many rows each expert gets, before it can launch the exchange: it cannot run ahead
// of attention and routing, only of experts (Part::forward_launches). With a capacity the number is known beforehand.
// The kernels between are small, those of the experts are not. Where another micro-batch's tokens travel meanwhile, one
// thread launches a forward and a backward in turns, and what one pass leaves idle the other uses.
void FrameworkRewrite::launch_modules() {
  const auto launches = module_launches();
  const auto whole = [](double count) { return static_cast<std::int64_t>(std::llround(count)); };
  const auto& forward = part_.forward;
  const auto at = [&](auto&& found) { return static_cast<std::size_t>(found - forward.begin()); };
  const bool waits = has_experts() && run_.routing.waits && run_.framework.cuda_graph != CudaGraph::full;
  if (waits && !run_.framework.expert_overlap) {
    const auto router = std::find_if(forward.begin(), forward.end(), [](auto& s) { return s.name == "router"; });
    auto sent = std::find_if(router, forward.end(), [](auto& s) { return s.name == "dispatch"; });
    if (sent == forward.end()) sent = std::find_if(router, forward.end(), [](auto& s) { return s.name == "permute"; });
    part_.forward_launches = {{at(sent), whole(launches.attention + launches.router)},
                              {forward.size(), whole(launches.experts)}};
  } else {
    part_.forward_launches = {{forward.size(), whole(launches.forward())}};
  }
  part_.counts_modules = true;
  part_.launched_together = has_experts() && run_.framework.expert_overlap;
  part_.uneven_launches = waits && !part_.launched_together;
  part_.backward_launches = whole(launches.backward) + update_launches();
  part_.weight_launches = std::min(part_.weight_launches, part_.backward_launches);
}

}  // namespace rehearsal::models
