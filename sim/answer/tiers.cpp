#include "answer/tiers.hpp"

#include <algorithm>
#include <map>

#include "answer/lowered_job.hpp"
#include "plan/mesh.hpp"

namespace rehearsal::answer {

std::vector<TierSummary> tier_summaries(const LoweredJob& lowered, const timeline::Timeline& timeline) {
  std::vector<TierSummary> all;
  const auto& scenario = lowered.scenario;
  if (!scenario.concrete || !scenario.concrete->training.leaves_device()) return all;
  const auto& cluster = scenario.concrete->cluster;
  const auto& graph = lowered.graph;
  const plan::Mesh mesh = plan::mesh_of(scenario.parallelism, scenario.placement);
  for (const Tier tier : {Tier::host, Tier::nvme}) {
    TierSummary summary;
    summary.tier = tier;
    std::map<std::uint32_t, double> of_stage;  // by pipeline rank
    for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
      const auto peak = timeline::memory_peak(graph, timeline, RankId(r), tier);
      const double bytes = double(peak.peak.count());
      if (bytes > summary.per_gpu) summary.per_gpu = bytes, summary.at_peak = peak.at_peak;
      auto& most = of_stage[graph.ranks()[r].place[Axis::pipeline]];
      most = std::max(most, bytes);
    }
    if (summary.per_gpu == 0) continue;
    std::map<std::int64_t, double> of_node;
    for (std::uint32_t r = 0; r < mesh.ranks(); ++r)
      of_node[r / cluster.gpus_per_node] += of_stage[mesh.at(r)[Axis::pipeline]];
    for (const auto& [node, bytes] : of_node) summary.per_node = std::max(summary.per_node, bytes);
    const auto& capacity = tier == Tier::host ? cluster.host.memory : cluster.host.nvme;
    if (capacity) summary.capacity = double(capacity->count()), summary.fits = summary.per_node <= *summary.capacity;
    all.push_back(summary);
  }
  return all;
}

namespace {

// Bytes/s per GPU of a tier when all GPUs of the node use it.
double share_of(const cluster::ClusterSpec& c, Tier tier) {
  const auto& host = c.host;
  const double gpus = double(c.gpus_per_node), on_link = double(std::min(host.gpus_per_link, c.gpus_per_node));
  const double link = std::min(host.pcie.value_or(Bandwidth{}).value() / on_link,
                               host.memory_bandwidth.value_or(Bandwidth{}).value() / gpus);
  if (tier == Tier::host) return link;
  return std::min({link, host.nvme_read.value_or(Bandwidth{}).value() / gpus,
                   host.nvme_write.value_or(Bandwidth{}).value() / gpus});
}

// Bytes/s at which optimizer states (16 bytes per parameter, read and written) are read, updated and written: the
// host's priced rate and, if they are on disks, the disks' rate in series with it.
double rate_of_states(const LoweredJob& lowered) {
  constexpr double kMoved = 2 * 16;
  const auto& c = *lowered.scenario.concrete;
  double parameters = 0, host = 0;
  const auto works = lowered.graph.works();
  for (std::size_t w = 0; w < works.size(); ++w)
    if (const auto* step = std::get_if<graph::HostStep>(&works[w]))
      parameters += step->parameters, host += to_seconds(lowered.durations[w]);
  const double each = parameters > 0 ? host / parameters / kMoved : 0;
  const double disks = c.training.offload.optimizer == Tier::nvme ? 1 / share_of(c.cluster, Tier::nvme) : 0;
  const double gpus = double(c.cluster.gpus_per_node);
  const double memory = each > 0 ? each : gpus / c.cluster.host.memory_bandwidth->value();
  return 1 / (memory + disks);
}

}  // namespace

std::optional<OffloadEfficiency> offload_efficiency(const LoweredJob& lowered, RankId rank, Time computes,
                                                    Time iteration) {
  const auto& scenario = lowered.scenario;
  if (!scenario.concrete || !scenario.concrete->training.leaves_device() || computes <= Time{}) return std::nullopt;
  const auto& c = *scenario.concrete;
  const auto& offload = c.training.offload;
  const auto& p = scenario.parallelism;
  const double replicas = double(p.data * p.context);
  const double tokens = double(scenario.batch.global * scenario.batch.sequence) / replicas;
  const double peak = lowered.hardware_flops.value() / double(p.gpus()) / to_seconds(computes);
  OffloadEfficiency all;
  all.simulated = computes / iteration;
  const auto add = [&](std::optional<double>& to, double intensity, double rate) {
    to = models::efficiency(intensity, rate, peak);
  };
  if (offload.parameters != Tier::device)
    add(all.parameters, models::intensity_of_parameters(tokens),
        share_of(c.cluster, offload.parameters) * (offload.one_owner ? 1 : replicas));
  if (offload.optimizer != Tier::device)
    add(all.optimizer, models::intensity_of_optimizer(tokens), replicas * rate_of_states(lowered));
  if (c.training.checkpoints_on() != Tier::device)
    add(all.activations, models::intensity_of_checkpoints(double(c.model.hidden), 1),
        share_of(c.cluster, c.training.checkpoints_on()) * (c.training.cuts_checkpoints() ? double(p.tensor) : 1));
  Time serial;
  const auto& graph = lowered.graph;
  for (const WorkId work : graph.program_of(graph.ranks()[rank.index()]).work)
    serial = serial + lowered.durations[work.index()];
  all.together = computes / std::max(serial, iteration);
  return all;
}

}  // namespace rehearsal::answer
