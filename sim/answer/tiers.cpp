#include "answer/tiers.hpp"

#include <algorithm>
#include <map>

#include "answer/question.hpp"
#include "plan/mesh.hpp"

namespace rehearsal::answer {

std::vector<TierSummary> tier_summaries(const Question& question, const timeline::Timeline& timeline) {
  std::vector<TierSummary> all;
  const auto& scenario = question.scenario;
  if (!scenario.concrete || !scenario.concrete->training.leaves_device()) return all;
  const auto& cluster = scenario.concrete->cluster;
  const auto& graph = question.graph;
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

}  // namespace rehearsal::answer
