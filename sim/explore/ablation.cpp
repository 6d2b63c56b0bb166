#include "explore/ablation.hpp"

#include <algorithm>

namespace rehearsal::explore {
namespace {

using models::LayerWork;
using models::Operator;
using scenario::Concrete;

constexpr double kConstantRate = .7;  // of peak; the best single value over all published runs

template <class Act>
void each_list(LayerWork& work, Act&& act) {
  for (auto* list : {&work.forward, &work.input_gradient, &work.weight_gradient, &work.backward, &work.recompute})
    act(*list);
}
template <class Act>
void each_part(plan::Plan& plan, Act&& act) {
  for (auto* work : {&plan.embedding, &plan.layer, &plan.kept_layer, &plan.head}) act(*work);
}
template <class Test>
void erase(plan::Plan& plan, Test&& test) {
  each_part(plan, [&](LayerWork& work) { each_list(work, [&](auto& list) { std::erase_if(list, test); }); });
}

template <class Shape>
bool is(const Operator& op) {
  return std::holds_alternative<Shape>(op.shape);
}
bool is_softmax(const Operator& op) { return op.name.starts_with("softmax"); }
bool is_attention(const Operator& op) {
  const auto* gemm = std::get_if<Gemm>(&op.shape);
  return is<FusedAttention>(op) || (gemm && gemm->batch > 1) || is_softmax(op);
}

// Without its collective a GEMM is by itself, whole, and has no parts to add up.
void without_collectives(plan::Plan& plan) {
  each_part(plan, [](LayerWork& work) {
    each_list(work, [](auto& list) {
      for (auto& op : list) {
        const auto* overlapped = std::get_if<models::OverlappedGemm>(&op.shape);
        if (!overlapped) continue;
        auto whole = overlapped->piece;
        whole.m *= overlapped->pieces;
        op.shape = whole;
      }
      std::erase_if(
          list, [](const Operator& op) { return is<models::TensorCollective>(op) || op.name == models::kSumOfParts; });
    });
  });
}

// A GEMM becomes traffic that takes as long as its FLOPs at one rate: no tiles, waves, clocks or overheads. Those in
// pieces stay: what shows of their collective depends on their shape.
void constant_rate(plan::Plan& plan) {
  const auto& gpu = plan.job.cluster.gpu;
  each_part(plan, [&](LayerWork& work) {
    each_list(work, [&](auto& list) {
      for (auto& op : list) {
        const auto* gemm = std::get_if<Gemm>(&op.shape);
        if (!gemm) continue;
        const auto peak = gpu.peak.find(gemm->precision);
        if (peak == gpu.peak.end()) continue;
        const double seconds = gemm->flops().value() / (kConstantRate * peak->second.value());
        op.shape = MemoryBound{bytes(seconds * gpu.sustained_memory_bandwidth.value()), 0, Traffic::plain};
      }
    });
  });
}

constexpr Effect kEffects[] = {
    {"tiles", "GEMMs at .70 of peak whatever their shape", nullptr, constant_rate},
    {"clock", "GEMMs at the rate of short bursts", [](Concrete& c) { c.cluster.gpu.sustained_clock = 1; }},
    {"attention", "no attention core", nullptr, [](plan::Plan& p) { erase(p, is_attention); }},
    {"memory-bound", "no norms, activations, residuals, casts", nullptr,
     [](plan::Plan& p) { erase(p, [](const Operator& op) { return is<MemoryBound>(op) && !is_softmax(op); }); }},
    {"ends", "no embedding and no output head", nullptr,
     [](plan::Plan& p) {
       for (auto* work : {&p.embedding, &p.head}) each_list(*work, [](auto& list) { list.clear(); });
     }},
    {"accumulation", "gradients are added up for free",
     [](Concrete& c) {
       c.software.fused_accumulation = false;
       c.software.accumulate_bytes_fp16 = c.software.accumulate_bytes_bf16 = 0;
     }},
    {"optimizer", "the optimizer moves no bytes", [](Concrete& c) { c.software.optimizer_bytes = 0; }},
    {"bubble", "pipeline ranks never wait", nullptr, nullptr, true},
    {"tensor-comm", "tensor-parallel collectives are free", nullptr, without_collectives},
    {"async-tensor", "tensor-parallel collectives never run under a GEMM",
     [](Concrete& c) { c.software.async_tensor = false; }},
    {"pipeline-comm", "pipeline messages are free", [](Concrete& c) { c.cluster.message_overhead = Time{}; },
     [](plan::Plan& p) { p.message = p.message_gathered = Bytes{}; }},
    {"data-comm", "gradients and parameters travel for free", nullptr,
     [](plan::Plan& p) { p.data_group.ranks = p.embedding_group.ranks = 1; }},
    {"kernel-gap", "no time between kernels", [](Concrete& c) { c.cluster.gpu.kernel_gap = Time{}; }},
    {"host", "kernels are launched for free", [](Concrete& c) { c.software.host_seconds_per_kernel = 0; }},
    {"dropout", "kernels of models with dropout take their bytes over bandwidth", nullptr,
     [](plan::Plan& p) {
       each_part(p, [](LayerWork& work) {
         each_list(work, [](auto& list) {
           for (auto& op : list)
             if (auto* memory = std::get_if<MemoryBound>(&op.shape)) memory->kind = Traffic::plain;
         });
       });
     }},
    {"attention-generation", "every fused attention kernel is FlashAttention-2",
     [](Concrete& c) { c.software.attention_rate = 1; }},
    {.name = "sharing", .what = "nothing that runs takes anything from what runs beside it", .alone = true},
    {"partial-groups", "groups of several but not all GPUs of a node reach every NIC",
     [](Concrete& c) { c.cluster.nics_per_group = 0; }},
    {"overlap", "no reduction or gather runs under computation",
     [](Concrete& c) {
       c.software.gradient_overlap = models::GradientOverlap::never;
       c.training.overlap_gathers = false;
     }},
    {"blocking-sends", "pipeline sends never hold up their rank",
     [](Concrete& c) { c.software.blocking_sends = false; }},
    {"sharded-sends", "every tensor rank sends the whole activation",
     [](Concrete& c) { c.software.sharded_sends = false; }},
    {"early-stop", "recomputation repeats the whole forward", [](Concrete& c) { c.software.early_stop = false; }},
    {"compiled", "no kernels are fused by a compiler", [](Concrete& c) { c.software.compiled = false; }},
};

}  // namespace

std::span<const Effect> effects() { return kEffects; }

const Effect* find_effect(std::string_view name) {
  const auto found = std::find_if(std::begin(kEffects), std::end(kEffects), [&](auto& e) { return e.name == name; });
  return found == std::end(kEffects) ? nullptr : found;
}

}  // namespace rehearsal::explore
