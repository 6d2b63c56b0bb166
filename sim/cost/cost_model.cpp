#include "cost/cost_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "cost/constants.hpp"

namespace rehearsal::cost {
namespace {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Rate of large GEMMs that run for hours, before tile and wave losses.
FlopRate sustained_peak(const cluster::Gpu& gpu, Precision precision) {
  double factor = gpu.sustained_clock;
  Precision stored = precision;
  if (precision == Precision::fp8 && gpu.fp8_speedup > 0) {  // measured against bf16, casts not included
    factor *= gpu.fp8_speedup;
    stored = Precision::bf16;
  }
  const auto found = gpu.peak.find(stored);
  if (found == gpu.peak.end() || found->second.value() <= 0)
    throw UserError(
        fmt::format("GPU '{}' cannot compute in {}; choose another training.precision or give its peak rate", gpu.name,
                    name(precision)));
  return found->second * factor;
}

}  // namespace

CostModel::CostModel(cluster::ClusterSpec machine, collective::SizeCurves curves, models::Software software,
                     std::shared_ptr<const Profile> profile)
    : machine_(std::move(machine)),
      curves_(std::move(curves)),
      software_(std::move(software)),
      profile_(std::move(profile)) {
  const auto& gpu = machine_.gpu;
  const auto need = [&](bool given, const char* key) {
    if (!given)
      throw UserError(fmt::format("GPU '{}' has no '{}'; kernels cannot be priced without it", gpu.name, key));
  };
  need(gpu.sms > 0, "sms");
  need(gpu.sustained_memory_bandwidth.value() > 0, "sustained_memory_bandwidth");
  need(gpu.gemm_efficiency > 0, "gemm_efficiency");
  need(gpu.sustained_clock > 0, "sustained_clock");
  need(gpu.weight_gradient_rate > 0, "weight_gradient_rate");
}

// t = t0 + min over tile and split-K of max(waves (work of a tile / rate of an SM + t_pro), bytes / BW)
double CostModel::gemm(const Gemm& shape) const {
  const auto& gpu = machine_.gpu;
  const double sm_rate =
      sustained_peak(gpu, shape.precision).value() / double(gpu.sms) * gpu.gemm_efficiency;  // FLOP/s of one SM
  const double m = double(shape.m), n = double(shape.n), k = double(shape.k);
  const double in = double(bytes_per_element(shape.precision)), out = std::max(2., in);
  const double moved = in * (m * k + k * n) + out * m * n;
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const std::int64_t tiles = ceil_div(shape.m, tile.rows) * ceil_div(shape.n, tile.columns) * shape.batch;
    for (const std::int64_t split : kSplits) {
      const double depth = k / double(split);
      if (split > 1 && depth < kLeastSplitDepth) continue;
      const double waves = double(ceil_div(tiles * split, gpu.sms));
      const double tile_flops = 2. * double(tile.rows) * double(tile.columns) * depth;
      const double compute = waves * (tile_flops / (sm_rate * tile.rate) + to_seconds(gpu.tile_overhead));
      const double partial = split > 1 ? kSplitTraffic * double(split) * m * n : 0;
      const double memory = (moved + partial) * double(shape.batch) / gpu.sustained_memory_bandwidth.value();
      best = std::min(best, std::max(compute, memory));
    }
  }
  const double alone = to_seconds(gpu.gemm_overhead) + best;
  return alone / (shape.weight_gradient ? gpu.weight_gradient_rate : 1) + to_seconds(gpu.kernel_gap);
}

double CostModel::attention(const FusedAttention& shape) const {
  const auto& gpu = machine_.gpu;
  if (gpu.fused_attention_rate.value() <= 0)
    throw UserError(fmt::format("GPU '{}' has no fused attention kernel; set training.attention to unfused", gpu.name));
  const double keys = double(shape.keys);
  const double length = keys / (keys + (shape.causal ? kAttentionHalfLength : kAttentionHalfLengthSquare));
  const double blocks = double(shape.batch * shape.heads * ceil_div(shape.queries, kAttentionTile));
  // Square root: with less than two blocks per SM those that run have more cache and memory rate each.
  const double occupancy = std::sqrt(std::min(1., blocks / (2. * double(gpu.sms))));
  const double rate = gpu.fused_attention_rate.value() * software_.attention_rate *
                      (shape.causal ? 1 : kAttentionSquareRate) *
                      (shape.head_dim >= kAttentionFullHead ? 1 : kAttentionSmallHead) * length * occupancy *
                      (shape.backward ? kAttentionBackward : kAttentionForward);
  const int kernels = shape.backward ? 2 : 1;  // backward: row sums first
  return shape.flops().value() / rate + kernels * to_seconds(gpu.kernel_gap);
}

double CostModel::memory_bound(const MemoryBound& shape) const {
  const auto& gpu = machine_.gpu;
  const double factor = shape.kind == Traffic::with_dropout_forward    ? kDropoutForward
                        : shape.kind == Traffic::with_dropout_backward ? kDropoutBackward
                                                                       : 1;
  return factor * seconds_for(shape.traffic, gpu.sustained_memory_bandwidth) +
         double(shape.kernels) * to_seconds(gpu.kernel_gap);
}

double CostModel::optimizer(const graph::OptimizerStep& work) const {
  return seconds_for(work.traffic, machine_.gpu.sustained_memory_bandwidth) + kOptimizerFixed;
}

// Our own kernels: as measured, or by the rules of the others: matrix products as GEMMs, the rest by its traffic.
double CostModel::kernel(const Kernel& k) const {
  if (const auto measured = profile_ ? profile_->time(k) : std::nullopt) return measured->time;
  const auto& [a, b, c, d, e] = k.dims;
  switch (k.kind) {
    case KernelKind::linear:
      return gemm({a, b, c, 1, Precision::fp32, false});
    case KernelKind::linear_input_gradient:
      return gemm({a, c, b, 1, Precision::fp32, false});
    case KernelKind::linear_weight_gradient:
      return gemm({b, c, a, 1, Precision::fp32, true});
    case KernelKind::attention:
    case KernelKind::attention_gradient:
      return attention({a, b, c, c, d, e != 0, k.kind == KernelKind::attention_gradient});
    default:
      return memory_bound({k.traffic(), 1, Traffic::plain});
  }
}

// o_s or o_r of a measured message; without one a copy, read and written.
double CostModel::handover(const graph::Handover& work) const {
  if (profile_ && profile_->has_messages()) {
    const auto& m = profile_->messages;
    return work.size.count() > 0 ? collective::interpolate(work.incoming ? m.receive : m.send, work.size) : 0;
  }
  return seconds_for(work.size * 2.0, machine_.gpu.sustained_memory_bandwidth);
}

std::vector<Time> CostModel::price(std::span<const graph::Work> works) const {
  std::vector<Time> times;
  times.reserve(works.size());
  const auto earlier = [&](WorkId id) {
    INVARIANT(id.index() < times.size(), "a composite work refers to a later one");
    return times[id.index()];
  };
  struct Pricer {
    const CostModel& cost;
    decltype(earlier)& priced;
    Time between;  // a rank is kept by its own loop before it performs the next task
    Time operator()(const Gemm& w) const { return seconds(cost.gemm(w)); }
    Time operator()(const FusedAttention& w) const { return seconds(cost.attention(w)); }
    Time operator()(const MemoryBound& w) const { return seconds(cost.memory_bound(w)); }
    Time operator()(const Kernel& w) const { return seconds(cost.kernel(w)) + between; }
    Time operator()(const graph::Handover& w) const { return seconds(cost.handover(w)) + between; }
    Time operator()(const graph::Collective& w) const { return seconds(cost.collective(w)); }
    Time operator()(const graph::Exposed& w) const { return seconds(to_seconds(priced(w.collective)) * w.share); }
    Time operator()(const graph::Pipelined& w) const {
      // piece + (n - 1) max(piece, collective/(n - 1)): the own piece does not travel.
      const Time piece = priced(w.kernel);
      return std::max(piece * std::int64_t(w.pieces), piece + priced(w.collective));
    }
    Time operator()(const graph::Message& w) const { return seconds(cost.message(w)); }
    Time operator()(const graph::Receive&) const { return Time(); }
    Time operator()(const graph::OptimizerStep& w) const { return seconds(cost.optimizer(w)); }
    Time operator()(const graph::Wait& w) const { return w.duration; }
    Time operator()(const graph::HostBound& w) const { return std::max(Time(), w.host - priced(w.busy)); }
    Time operator()(const graph::Interference& w) const {
      return seconds(kInterference * to_seconds(std::min(priced(w.communication), priced(w.compute))));
    }
    Time operator()(const graph::Sequence& w) const {
      Time sum;
      for (const auto& item : w.items) sum += priced(item.work) * std::int64_t(item.count);
      return sum;
    }
  };
  const Time between = profile_ && profile_->between_tasks ? profile_->between_tasks->p50 : Time();
  for (const auto& work : works) times.push_back(std::visit(Pricer{*this, earlier, between}, work));
  return times;
}

}  // namespace rehearsal::cost
