#include "explore/ablation.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace rehearsal::explore {
namespace {

using models::Part;
using models::Step;
using scenario::Concrete;

constexpr double kConstantRate = .7;  // of peak; the best constant over all published runs

template <class Act>
void each_step(Part& part, Act&& act) {
  for (auto* list : {&part.forward, &part.input_gradient_steps, &part.weight_gradient_steps, &part.backward})
    for (auto& step : *list) act(step);
}
template <class Act>
void each_step(plan::Plan& plan, Act&& act) {
  auto network = plan.network();
  each_step(network.embedding, act), each_step(network.head, act), each_step(network.prediction, act),
      each_step(network.body, act);
  for (auto* layers : {&network.layers, &network.kept})
    for (auto& part : *layers) each_step(part, act);
  plan.networks = {std::make_shared<const models::Network>(std::move(network))};
}

template <class Shape>
bool is(const Step& step) {
  return std::holds_alternative<Shape>(step.what);
}
bool is_softmax(const Step& step) { return step.name.starts_with("softmax"); }
const FusedAttention* attention_beside(const Step& step) {
  const auto* both = std::get_if<models::OverlappedKernel>(&step.what);
  return both ? std::get_if<FusedAttention>(&both->piece) : nullptr;
}
bool is_attention(const Step& step) {
  const auto* gemm = std::get_if<Gemm>(&step.what);
  return is<FusedAttention>(step) || (gemm && gemm->batch > 1) || is_softmax(step);
}
// The step still produces its values.
void make_free(Step& step) { step.what = MemoryBound{Bytes{}, 0, Traffic::plain}; }
template <class Test>
void make_free(plan::Plan& plan, Test&& test) {
  each_step(plan, [&](Step& step) {
    if (test(step)) make_free(step);
  });
}

// Without its collective, a GEMM runs undivided and has no partial sums to add.
void without_collectives(plan::Plan& plan) {
  each_step(plan, [](Step& step) {
    if (const auto* block = attention_beside(step)) {
      step.what = FusedAttention(*block);
    } else if (const auto* overlapped = std::get_if<models::OverlappedKernel>(&step.what)) {
      auto whole = std::get<Gemm>(overlapped->piece);
      whole.m *= overlapped->pieces;
      step.what = whole;
    } else if (is<models::GroupCollective>(step) || is<models::TokenDispatch>(step) ||
               step.name == models::kSumOfParts) {
      make_free(step);
    }
  });
}

// Replaces each GEMM by memory traffic that takes as long as its FLOPs at one rate: no tiles, waves, clocks or
// overheads. GEMMs split for overlap keep their prices: the exposed part of their collective depends on their shape.
void constant_rate(plan::Plan& plan) {
  const auto& gpu = plan.job.cluster.gpu;
  each_step(plan, [&](Step& step) {
    const auto* gemm = std::get_if<Gemm>(&step.what);
    if (!gemm) return;
    const auto peak = gpu.peak.find(gemm->precision);
    if (peak == gpu.peak.end()) return;
    const double seconds = gemm->flops().value() / (kConstantRate * peak->second.value());
    step.what = MemoryBound{bytes(seconds * gpu.sustained_memory_bandwidth.value()), 0, Traffic::plain};
  });
}

// Keys and values are still communicated.
void without_attention(plan::Plan& plan) {
  each_step(plan, [](Step& step) {
    if (attention_beside(step))
      step.what = models::GroupCollective(std::get<models::OverlappedKernel>(step.what).collective);
    else if (is_attention(step))
      make_free(step);
  });
}

void without_ends(plan::Plan& plan) {
  auto network = plan.network();
  for (auto* part : {&network.embedding, &network.head}) each_step(*part, [](Step& step) { make_free(step); });
  plan.networks = {std::make_shared<const models::Network>(std::move(network))};
}

constexpr Effect kEffects[] = {
    {"tiles", "GEMMs at .70 of peak whatever their shape", nullptr, constant_rate},
    {"clock", "GEMMs at the rate of short bursts", [](Concrete& c) { c.cluster.gpu.sustained_clock = 1; }},
    {"attention", "no attention core", nullptr, without_attention},
    {"memory-bound", "no norms, activations, residuals, casts", nullptr,
     [](plan::Plan& p) { make_free(p, [](const Step& step) { return is<MemoryBound>(step) && !is_softmax(step); }); }},
    {"ends", "no embedding and no output head", nullptr, without_ends},
    {"accumulation", "gradients are added up for free",
     [](Concrete& c) {
       c.framework.fused_accumulation = false;
       c.framework.accumulate_bytes_fp16 = c.framework.accumulate_bytes_bf16 = 0;
     }},
    {"optimizer", "the optimizer moves no bytes", [](Concrete& c) { c.framework.optimizer_bytes = 0; }},
    {"bubble", "pipeline ranks never wait", nullptr, nullptr, true},
    {"tensor-comm", "collectives within passes are free", nullptr, without_collectives},
    {"async-tensor", "tensor-parallel collectives never run under a GEMM",
     [](Concrete& c) { c.framework.async_tensor = false; }},
    {"pipeline-comm", "pipeline messages are free", [](Concrete& c) { c.cluster.message_overhead = Time{}; },
     [](plan::Plan& p) { p.message = p.message_gathered = Bytes{}; }},
    {"data-comm", "gradients and parameters travel for free", nullptr,
     [](plan::Plan& p) {
       for (const auto axis : {Axis::data, Axis::expert_data, Axis::pipeline}) p.groups[index(axis)].ranks = 1;
     }},
    {"kernel-gap", "no time between kernels", [](Concrete& c) { c.cluster.gpu.kernel_gap = Time{}; }},
    {"host", "kernels are launched for free", [](Concrete& c) { c.framework.host_seconds_per_kernel = 0; }},
    {"dropout", "kernels of models with dropout take their bytes over bandwidth", nullptr,
     [](plan::Plan& p) {
       each_step(p, [](Step& step) {
         if (auto* memory = std::get_if<MemoryBound>(&step.what)) memory->kind = Traffic::plain;
       });
     }},
    {"attention-generation", "every fused attention kernel is FlashAttention-2",
     [](Concrete& c) { c.framework.attention_rate = 1; }},
    {.name = "sharing", .what = "nothing that runs takes anything from what runs beside it", .alone = true},
    {"partial-groups", "groups of several but not all GPUs of a node reach every NIC",
     [](Concrete& c) { c.cluster.nics_per_group = 0; }},
    {"overlap", "no reduction or gather runs under computation",
     [](Concrete& c) {
       c.framework.gradient_overlap = models::GradientOverlap::never;
       c.training.overlap_gathers = false;
     }},
    {"blocking-sends", "pipeline sends never hold up their rank",
     [](Concrete& c) { c.framework.blocking_sends = false; }},
    {"sharded-sends", "every tensor rank sends the whole activation",
     [](Concrete& c) { c.framework.sharded_sends = false; }},
    {"early-stop", "recomputation repeats the whole forward", [](Concrete& c) { c.framework.early_stop = false; }},
    {"compiled", "no kernels are fused by a compiler", [](Concrete& c) { c.framework.compiled = false; }},
};

}  // namespace

std::span<const Effect> effects() { return kEffects; }

const Effect* find_effect(std::string_view name) {
  const auto found = std::find_if(std::begin(kEffects), std::end(kEffects), [&](auto& e) { return e.name == name; });
  return found == std::end(kEffects) ? nullptr : found;
}

}  // namespace rehearsal::explore
