#include "cost/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace rehearsal::cost {
namespace {

using models::AttentionKernel;

// One direction of a kernel, relative to forward and backward together at head size 128, causal. Fitted on every other
// row of the figures of FlashAttention-2 (2307.08691, A100 and H100) and FlashAttention-3 (2407.08608: itself,
// FlashAttention-2 and cuDNN on H100). No figure has the backward of head size 256 and of causal FlashAttention-3 and
// cuDNN: assumed to differ from the known ones as the forward does.
struct Direction {
  double rate;             // 1/forward + 2.5/backward = 3.5
  double head64, head256;  // rate with other head sizes
  double square, causal;   // tokens of half rate: short rows waste the ends of blocks, causal ones the diagonal too
};
struct AttentionFit {
  double square_rate;  // not causal, over causal
  Direction forward, backward;
};
constexpr double backward_rate(double forward) { return 2.5 / (3.5 - 1 / forward); }
constexpr AttentionFit kFlash2{1 / .959, {1.09, .85, .96, 45, 356}, {backward_rate(1.09), .87, .96, 247, 533}};
constexpr AttentionFit kFlash3{1 / .959, {1.187, .70, 1.13, 279, 686}, {backward_rate(1.187), .83, 1.13, 361, 768}};
constexpr AttentionFit kCudnn{1 / .90, {1.132, .65, 1.03, 67, 339}, {backward_rate(1.132), .825, 1.03, 293, 564}};

const AttentionFit& fit_of(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::flash2:
      return kFlash2;
    case AttentionKernel::flash3:
      return kFlash3;
    case AttentionKernel::cudnn:
      return kCudnn;
  }
  return kFlash2;
}

FlopRate rate_of(const cluster::Gpu& gpu, AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::flash2:
      return gpu.fused_attention_rate;
    case AttentionKernel::flash3:
      return gpu.flash3_attention_rate;
    case AttentionKernel::cudnn:
      return gpu.cudnn_attention_rate;
  }
  return {};
}

constexpr double kRows = 128;       // rows of one thread block,
constexpr double kBlocksPerSm = 2;  // of which two fit an SM
constexpr double kBackwardTail =
    .5;  // blocks a slot; forward: Gpu::attention_tail. Fitted (MooreThreads/SimuMax, A100)

// Head sizes between the published ones are interpolated; smaller ones fill less of a tensor core instruction.
double head_rate(const Direction& d, double head) {
  if (head <= 64) return d.head64 * head / 64;
  if (head <= 128) return d.head64 + (1 - d.head64) * (head - 64) / 64;
  return std::min(head, 256.) <= 128 ? 1 : 1 + (d.head256 - 1) * (std::min(head, 256.) - 128) / 128;
}

// Rates are those of 16 bits, the format of all published kernels; on a GPU that computes in fp32 alone, of that. In
// fp32 (where a framework runs another kernel: FlashAttention has none) GEMMs are assumed to reach the same share of
// their peak.
double of_precision(const cluster::Gpu& gpu, Precision precision) {
  const auto peak = [&](std::initializer_list<Precision> first_of) {
    for (const auto p : first_of)
      if (const auto found = gpu.peak.find(p); found != gpu.peak.end()) return found->second.value();
    return 0.;
  };
  using enum Precision;
  if (bytes_per_element(precision) < 4) return 1;
  const double known = peak({bf16, fp16, fp32, tf32}),
               own = precision == tf32 ? peak({tf32, fp32}) : peak({fp32, tf32});
  return own > 0 ? std::min(1., own / known) : 1;
}

}  // namespace

AttentionKernel attention_kernel(const cluster::Gpu& gpu, AttentionKernel asked) {
  return rate_of(gpu, asked).value() > 0 ? asked : AttentionKernel::flash2;
}

// t = FLOPs / (R c e_d) (1 + h/s) (1 + x/u): s rows that a block goes through, u blocks for each slot of an SM, of
// which about x are lost to the tail effect, when other slots are idle. A partly filled last block counts by its rows;
// one is the least. Operands are read and results written once, which is the floor of short rows.
double attention_time(const cluster::Gpu& gpu, const FusedAttention& shape, AttentionKernel asked) {
  const AttentionKernel kernel = attention_kernel(gpu, asked);
  const double rate = rate_of(gpu, kernel).value();
  if (rate <= 0)
    throw UserError(fmt::format("GPU '{}' has no fused attention kernel; set training.attention to unfused", gpu.name));
  const AttentionFit& fit = fit_of(kernel);
  const Direction& d = shape.backward ? fit.backward : fit.forward;
  const double ideal = rate * of_precision(gpu, shape.precision) * d.rate * (shape.causal ? 1 : fit.square_rate) *
                       head_rate(d, double(shape.head_dim + shape.values()) / 2);
  // Thread blocks own rows of the queries in the forward, of the keys in the backward (FlashAttention-2, section 3.2),
  // and go through all rows of the other.
  const auto [owned, met] =
      shape.backward ? std::pair(shape.keys, shape.queries) : std::pair(shape.queries, shape.keys);
  // Where a query does not see all, a block goes through as many rows as would give it its scores.
  const double seen = double(met) * shape.scores() / shape.all_scores();
  const double ends = 1 + (shape.causal ? d.causal : d.square) / seen;
  const double rows = std::max(1., double(owned) / kRows);
  const double blocks = double(shape.batch * shape.heads) * rows / (kBlocksPerSm * double(gpu.sms));
  const double tail = 1 + (shape.backward ? kBackwardTail : gpu.attention_tail) / blocks;
  const auto peak = gpu.peak.find(shape.precision);
  const double least = peak == gpu.peak.end() ? 0 : shape.flops().value() / peak->second.value();
  return std::max({shape.flops().value() / ideal * ends * tail, least,
                   shape.operand_bytes() / gpu.sustained_memory_bandwidth.value()});
}

}  // namespace rehearsal::cost
