#include "explore/limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "answer/traffic.hpp"
#include "cost/cost_model.hpp"

namespace rehearsal::explore {
namespace {

using Place = answer::LinkTraffic::Place;

std::string and_others(std::string first, std::uint64_t count) {
  return count > 1 ? fmt::format("{} (one of {} alike)", first, count) : first;
}

// FLOPs of one work, by precision.
using ByPrecision = std::map<Precision, double>;  // FLOP

ByPrecision operations(const graph::Work& work, const std::vector<ByPrecision>& before) {
  ByPrecision sum;
  const auto add = [&](const ByPrecision& other, double times) {
    for (const auto& [precision, flops] : other) sum[precision] += times * flops;
  };
  if (const auto* gemm = std::get_if<Gemm>(&work)) {
    sum[gemm->precision] = gemm->flops().value();
  } else if (const auto* attention = std::get_if<FusedAttention>(&work)) {
    sum[attention->precision] = attention->flops().value();
  } else if (const auto* kernel = std::get_if<Kernel>(&work)) {
    sum[kernel->precision] = kernel->flops().value();
  } else if (const auto* both = std::get_if<graph::Overlapped>(&work)) {
    add(before[both->kernel.index()], 1);
  } else if (const auto* all = std::get_if<graph::Sequence>(&work)) {
    for (const auto& item : all->items) add(before[item.work.index()], item.count);
  }
  return sum;
}

// If a GPU has no rate for a precision, the next wider one is used.
double peak(const cluster::Gpu& gpu, Precision precision) {
  const auto rate = [&](Precision p) {
    const auto found = gpu.peak.find(p);
    return found == gpu.peak.end() ? 0. : found->second.value();
  };
  for (const auto p : {precision, Precision::bf16, Precision::fp16, Precision::tf32, Precision::fp32})
    if (rate(p) > 0) return rate(p);
  return 0;
}

}  // namespace

std::vector<Limit> limits(const answer::Result& prediction) {
  const auto& q = *prediction.lowered;
  std::vector<Limit> all;
  const double step = to_seconds(prediction.summary.iteration);
  if (!q.scenario.concrete || q.volumes.empty() || step <= 0) return all;
  const auto& c = *q.scenario.concrete;
  const auto works = q.graph.works();
  std::vector<ByPrecision> flops;
  for (const auto& work : works) flops.push_back(operations(work, flops));
  const auto touched = cost::CostModel(c.cluster, c.curves, c.framework, c.profile).memory_traffic(works);

  Limit arithmetic{"arithmetic", "FLOP", 0, 0, 0, 0, ""}, memory{"GPU memory", "B", 0, 0, 0, 0, ""};
  for (const auto& rank : q.graph.ranks()) {
    const auto& gpu = c.cluster.gpu_at(rank.node * c.cluster.gpus_per_node);
    double done = 0, seconds = 0, bytes = 0;
    for (const WorkId work : q.graph.program_of(rank).work) {
      for (const auto& [precision, count] : flops[work.index()]) {
        done += count;
        if (const double rate = peak(gpu, precision); rate > 0) seconds += count / rate;
      }
      bytes += touched[work.index()];
    }
    const auto whose = and_others(fmt::format("rank {}", rank.job_rank), rank.multiplicity);
    if (seconds > arithmetic.seconds)
      arithmetic = {arithmetic.name, arithmetic.unit, done, done / seconds, seconds, seconds / step, whose};
    const double rate = gpu.memory_bandwidth.value();
    if (rate > 0 && bytes / rate > memory.seconds)
      memory = {memory.name, memory.unit, bytes, rate, bytes / rate, bytes / rate / step, whose};
  }
  for (auto& limit : {arithmetic, memory})
    if (limit.seconds > 0) all.push_back(limit);

  constexpr std::pair<Place, const char*> kPlaces[] = {{Place::domain, "links inside a node"},
                                                       {Place::nic, "NICs"},
                                                       {Place::fabric, "links between switches"},
                                                       {Place::host, "links to hosts"},
                                                       {Place::disk, "disks"}};
  const auto links = answer::traffic(q, prediction.summary.iteration, std::string::npos).links;
  for (const auto& [place, name] : kPlaces) {
    const auto busiest =
        std::find_if(links.begin(), links.end(), [place = place](const auto& l) { return l.place == place; });
    if (busiest == links.end()) continue;  // links are sorted, busiest first
    const double seconds = busiest->busy_share * step;
    if (seconds > 0)
      all.push_back({name, "B", busiest->bytes, busiest->bytes / seconds, seconds, busiest->busy_share,
                     and_others(busiest->name, busiest->count)});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  return all;
}

}  // namespace rehearsal::explore
