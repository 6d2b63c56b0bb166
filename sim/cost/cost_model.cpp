#include "cost/cost_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.hpp"
#include "base/range.hpp"
#include "cost/attention.hpp"
#include "cost/constants.hpp"
#include "cost/gemm.hpp"
#include "cost/measured_gpu.hpp"

namespace rehearsal::cost {
namespace {

// Speed-up of GEMMs in fp8 over bf16, casts not included.
double fp8_speedup(const cluster::Gpu& gpu, models::Fp8Scaling scaling) {
  switch (scaling) {
    case models::Fp8Scaling::tensorwise:
    case models::Fp8Scaling::current:
      return gpu.fp8_speedup;
    case models::Fp8Scaling::rowwise:
      return gpu.fp8_rowwise_speedup;
    case models::Fp8Scaling::blockwise:
      return gpu.fp8_blockwise_speedup;
    case models::Fp8Scaling::mx:
      return gpu.fp8_mx_speedup;
  }
  return 0;
}

// A send inside a CUDA graph waits for no host, which is the fixed cost of a send that a framework posts.
cluster::ClusterSpec launched_by(const models::Framework& framework, cluster::ClusterSpec machine) {
  if (framework.cuda_graph == models::CudaGraph::full) machine.message_overhead = {};
  return machine;
}

// As collectives of a step find it, beside its kernels and those of other groups.
cluster::ClusterSpec in_a_step(const models::Framework& framework, cluster::ClusterSpec machine) {
  machine.nic_efficiency *= framework.nic_share;
  return machine;
}

// How long the GPU waits for a host that is behind of some kernels and ahead of others: neither is hidden fully if both
// take equally long. The norm of order 4 of the two times, as of computing and moving in a product.
double waits(double host, double busy) {
  const double h = host * host, b = busy * busy;
  return std::sqrt(std::sqrt(h * h + b * b)) - busy;
}

}  // namespace

CostModel::CostModel(cluster::ClusterSpec machine, collective::SizeCurves curves, models::Framework framework,
                     std::shared_ptr<const Profile> profile, const collective::Registry& algorithms)
    : machine_(launched_by(framework, std::move(machine))),
      communication_(in_a_step(framework, machine_), std::move(curves), framework.nccl, algorithms),
      framework_(std::move(framework)),
      profile_(std::move(profile)) {
  need_rates();
  if (const auto* times = measured_gpu())
    for (const auto& [precision, products] : times->gemm)
      measured_products_[precision] = with_gemm(machine_.gpu, *times, precision);
}

void CostModel::need_rates() const {
  const auto& gpu = machine_.gpu;
  const auto need = [&](bool given, const char* key) {
    if (!given)
      throw UserError(fmt::format("GPU '{}' has no '{}'; kernels cannot be priced without it", gpu.name, key));
  };
  need(gpu.sms > 0, "sms");
  need(gpu.sustained_memory_bandwidth.value() > 0, "sustained_memory_bandwidth");
  need(gpu.gemm_efficiency > 0, "gemm_efficiency");
  need(gpu.sustained_clock > 0, "sustained_clock");
  if ((gpu.power != 0 || gpu.power_limit != 0) && std::min(gpu.power, gpu.power_limit) <= cluster::kIdlePower)
    throw UserError(fmt::format("GPU '{}': 'power' and 'power_limit' need each other, and are more than {:g} W",
                                gpu.name, cluster::kIdlePower));
  need(gpu.weight_gradient_rate > 0, "weight_gradient_rate");
}

double CostModel::gemm(const Gemm& shape) const {
  const auto& gpu = machine_.gpu;
  // Measured fp8 has one scale per tensor; with finer scales the speed-up over bf16 counts.
  const bool finer = shape.precision == Precision::fp8 && !models::scales_tensors(framework_.fp8_scaling);
  if (const auto known = measured_products_.find(shape.precision); known != measured_products_.end() && !finer)
    return measured_gemm(*measured_gpu(), known->second, shape).value();
  Precision counted_as = shape.precision;
  double speedup = 1, limited = 0;
  if (shape.precision == Precision::fp4) {
    speedup = gpu.fp4_speedup > 0 ? gpu.fp4_speedup : 1;  // else by the peak
    if (gpu.fp4_speedup > 0) counted_as = Precision::bf16, limited = gpu.fp4_limited_speedup;
  } else if (shape.precision == Precision::fp8) {
    speedup = fp8_speedup(gpu, framework_.fp8_scaling);
    if (speedup > 0)
      counted_as = Precision::bf16;
    else if (models::scales_tensors(framework_.fp8_scaling))
      speedup = 1;  // by the peak, if there is one
    else
      throw UserError(fmt::format(
          "GPU '{}' has no rate of fp8 with the scales of framework.fp8_scaling; use tensorwise", gpu.name));
  }
  // fp32 on a GPU that has no rate for it but tf32: a framework would use tensor cores or nothing.
  if (shape.precision == Precision::fp32 && !gpu.peak.count(Precision::fp32)) counted_as = Precision::tf32;
  // And tf32 on one that has no such tensor cores is fp32 (cuBLAS falls back to it).
  if (shape.precision == Precision::tf32 && !gpu.peak.count(Precision::tf32)) counted_as = Precision::fp32;
  // The gain of narrow formats was measured on another machine: this machine's peak is a limit all the same.
  const auto own = gpu.peak.find(shape.precision);
  const double least = own == gpu.peak.end() ? 0 : shape.flops().value() / own->second.value();
  return std::max(gemm_time(gpu, shape, counted_as, gpu.clock(), speedup, limited), least) + to_seconds(gpu.kernel_gap);
}

double CostModel::attention(const FusedAttention& shape) const {
  if (const auto* times = measured_gpu())
    if (const auto time = measured_attention(*times, machine_.gpu, shape, framework_.attention_kernel))
      return *time / framework_.attention_rate;
  const int kernels = shape.backward ? 2 : 1;  // backward: row sums first
  return attention_time(machine_.gpu, shape, framework_.attention_kernel) / framework_.attention_rate +
         kernels * to_seconds(machine_.gpu.kernel_gap);
}

double CostModel::memory_bound(const MemoryBound& shape) const {
  const auto& gpu = machine_.gpu;
  const double factor = shape.kind == Traffic::with_dropout_forward    ? framework_.dropout_forward
                        : shape.kind == Traffic::with_dropout_backward ? framework_.dropout_backward
                                                                       : 1;
  const auto eager = gpu.eager_rate.value() > 0 ? gpu.eager_rate : gpu.sustained_memory_bandwidth;
  const double beyond = factor * seconds_for(shape.beyond, eager);
  if (const auto* times = measured_gpu())
    if (const auto time = measured_traffic(*times, shape, factor)) return *time + beyond;
  return factor * seconds_for(shape.traffic, gpu.sustained_memory_bandwidth) + beyond +
         double(shape.kernels) * to_seconds(gpu.kernel_gap);
}

double CostModel::optimizer(const graph::OptimizerStep& work) const {
  return seconds_for(work.traffic, machine_.gpu.sustained_memory_bandwidth) + framework_.optimizer_overhead;
}

// A device without a rate for the precision of a kernel (a CPU's core for bf16) widens what it reads and computes in
// fp32: the fp32 kernel is then a better estimate than anything known of another device.
bool CostModel::computes_wide(const Kernel& kernel) const {
  return kernel.precision != Precision::fp32 && !machine_.gpu.peak.count(kernel.precision);
}

std::vector<std::string> CostModel::substitutes(std::span<const graph::Work> works) const {
  for (const auto& work : works) {
    const auto* kernel = std::get_if<Kernel>(&work);
    if (!kernel || !computes_wide(*kernel) || (profile_ && profile_->time(*kernel))) continue;
    return {fmt::format(
        "Kernels in {} were not measured on {}, which has no rate for it: they are priced as those in fp32.",
        name(kernel->precision), machine_.gpu.name)};
  }
  return {};
}

// Native kernels: as measured, or by the rules of the others: matrix products as GEMMs, the rest by memory traffic.
double CostModel::kernel(const Kernel& k) const {
  if (const auto measured = profile_ ? profile_->time(k) : std::nullopt) return measured->time;
  if (computes_wide(k)) {
    Kernel wide = k;
    wide.precision = Precision::fp32;
    return kernel(wide);
  }
  if (const auto product = gemm_of(k)) return gemm(*product);
  if (traits(k.kind).attention != AttentionPass::none) return attention(fused_attention(k));
  return memory_bound({k.traffic(), 1, Traffic::plain});
}

// o_s or o_r of a measured message; without one a copy, read and written.
double CostModel::staging_copy(const graph::StagingCopy& work) const {
  if (profile_ && profile_->has_messages()) {
    const auto& m = profile_->messages;
    return work.size.count() > 0 ? collective::interpolate(work.incoming ? m.receive : m.send, work.size) : 0;
  }
  return seconds_for(work.size * 2.0, machine_.gpu.sustained_memory_bandwidth);
}

// The model itself if GPU and links are as the cluster says.
class CostModel::ByLinks {
 public:
  ByLinks(const CostModel& model, Conditions conditions) : model_(model), conditions_(conditions) {}

  const graph::Condition& condition(std::size_t work) const {
    static const graph::Condition sound;
    return conditions_.empty() ? sound : conditions_[work];
  }
  const CostModel& of(std::size_t work) {
    const auto& c = condition(work);
    if (c.gpu == 0 && c.port == 1 && c.wire == 1) return model_;
    auto& known = others_[{c.gpu, c.port, c.wire}];
    if (!known) {
      known = std::make_unique<CostModel>(model_);
      known->communication_ = model_.communication_.narrowed(c.port, c.wire);
      if (c.gpu > 0) {  // the profile was measured on the cluster's own GPU
        known->machine_.gpu = model_.machine_.of_kind(c.gpu);
        known->profile_ = nullptr, known->measured_products_.clear();
        known->need_rates();
      }
    }
    return *known;
  }

 private:
  const CostModel& model_;
  Conditions conditions_;
  std::map<std::tuple<std::uint16_t, double, double>, std::unique_ptr<CostModel>> others_;
};

std::vector<Time> CostModel::price(std::span<const graph::Work> works, Conditions conditions,
                                   std::vector<Time> known) const {
  std::vector<Time> times = std::move(known);
  times.reserve(works.size());
  const auto earlier = [&](WorkId id) {
    INVARIANT(id.index() < times.size(), "a composite work refers to a later one");
    return times[id.index()];
  };
  struct Pricer {
    const CostModel& cost;
    double slowdown;
    ByLinks& models;
    decltype(earlier)& priced;
    std::span<const graph::Work> works;
    Time between;  // the rank's own loop, before it performs the next task
    Time kernel(double seconds) const { return counted(seconds * slowdown); }
    Time operator()(const Gemm& w) const { return kernel(cost.gemm(w)); }
    Time operator()(const FusedAttention& w) const { return kernel(cost.attention(w)); }
    Time operator()(const MemoryBound& w) const { return kernel(cost.memory_bound(w)); }
    Time operator()(const Kernel& w) const { return kernel(cost.kernel(w)) + between; }
    Time operator()(const graph::StagingCopy& w) const { return kernel(cost.staging_copy(w)) + between; }
    Time operator()(const graph::Collective& w) const { return counted(cost.collective(w)); }
    Time operator()(const graph::Dispatch& w) const { return counted(cost.dispatch(w)); }
    Time operator()(const graph::Overlapped& w) const {
      std::vector<std::vector<graph::Footprint>> row;
      if (const auto* stretch = std::get_if<graph::Sequence>(&works[w.kernel.index()]))
        for (const auto& item : stretch->items) row.insert(row.end(), item.count, flows(item.work));
      else
        row.push_back(flows(w.kernel));
      return cost.together(row, footprint(w.collective));
    }
    std::vector<graph::Footprint> flows(WorkId part) const {
      const auto* both = std::get_if<graph::Overlapped>(&works[part.index()]);
      return both ? std::vector{footprint(both->kernel), footprint(both->collective)} : std::vector{footprint(part)};
    }
    graph::Footprint footprint(WorkId part) const {
      return models.of(part.index()).footprint(works[part.index()], priced(part));
    }
    Time operator()(const graph::Message& w) const { return counted(cost.message(w)); }
    Time operator()(const graph::Copy& w) const { return counted(cost.copy(w)); }
    Time operator()(const graph::HostStep& w) const { return counted(cost.host_step(w)); }
    Time operator()(const graph::Receive&) const { return Time(); }
    Time operator()(const graph::OptimizerStep& w) const { return kernel(cost.optimizer(w)); }
    Time operator()(const graph::FixedDelay& w) const { return w.duration; }
    Time operator()(const graph::HostBound& w) const {
      const Time busy = priced(w.busy);
      return w.uneven ? counted(waits(to_seconds(w.host), to_seconds(busy))) : std::max(Time(), w.host - busy);
    }
    Time operator()(const graph::Sequence& w) const {
      Time all;
      for (const auto& item : w.items) all = sum(all, product(priced(item.work), std::int64_t(item.count)));
      return all;
    }
  };
  const Time between = profile_ && profile_->between_tasks ? profile_->between_tasks->p50 : Time();
  ByLinks models(*this, conditions);
  for (std::size_t i = times.size(); i < works.size(); ++i)
    times.push_back(
        std::visit(Pricer{models.of(i), models.condition(i).slowdown, models, earlier, works, between}, works[i]));
  return times;
}

std::vector<Time> CostModel::held(std::span<const graph::Work> works, Conditions conditions) const {
  std::vector<Time> times;
  times.reserve(works.size());
  ByLinks models(*this, conditions);
  for (std::size_t i = 0; i < works.size(); ++i) {
    const auto* message = std::get_if<graph::Message>(&works[i]);
    times.push_back(message ? counted(models.of(i).on_the_wire(*message)) : Time());
  }
  return times;
}

std::vector<collective::Execution> CostModel::executions(std::span<const graph::Work> works,
                                                         Conditions conditions) const {
  std::vector<collective::Execution> all;
  all.reserve(works.size());
  ByLinks models(*this, conditions);
  for (std::size_t i = 0; i < works.size(); ++i) {
    const auto& model = models.of(i).communication_;
    const auto* work = std::get_if<graph::Collective>(&works[i]);
    const auto* tokens = std::get_if<graph::Dispatch>(&works[i]);
    const auto exchange = tokens ? as_all_to_all(*tokens) : work ? *work : graph::Collective();
    all.push_back(tokens || work ? model.execution(exchange.group, exchange.kind, exchange.size)
                                 : collective::Execution());
  }
  return all;
}

std::vector<graph::Footprint> CostModel::footprints(std::span<const graph::Work> works, std::span<const Time> prices,
                                                    Conditions conditions) const {
  INVARIANT(works.size() == prices.size(), "one price per work");
  std::vector<graph::Footprint> all;
  all.reserve(works.size());
  ByLinks models(*this, conditions);
  for (std::size_t i = 0; i < works.size(); ++i) {
    all.push_back(models.of(i).footprint(works[i], prices[i]));
    if (framework_.native_kernels) on_links_alone(all.back());
  }
  return all;
}

}  // namespace rehearsal::cost
