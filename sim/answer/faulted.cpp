#include "answer/faulted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "answer/predict.hpp"
#include "base/quantity_text.hpp"
#include "timeline/waiting.hpp"

namespace rehearsal::answer {
namespace {

constexpr std::size_t kMostFaults = 8, kMostWaits = 8;

Time iteration_with(scenario::Scenario scenario, std::vector<cluster::Fault> faults) {
  scenario.faults = std::move(faults);
  return predict(scenario, Options::time_alone()).summary.iteration;
}

std::vector<Faulted::Waits> waits_for_slow(const LoweredJob& lowered, const timeline::Timeline& timeline) {
  const auto& scenario = lowered.scenario;
  const cluster::Health health(cluster::Machine(scenario.concrete->cluster), scenario.faults);
  const auto mesh = plan::mesh_of(scenario.parallelism, scenario.placement);
  const auto& graph = lowered.graph;
  std::vector<bool> slow;
  std::vector<std::uint32_t> first;  // rank of its tensor group
  for (const auto& rank : graph.ranks()) {
    const auto group = mesh.group(Axis::tensor, rank.job_rank);
    slow.push_back(std::any_of(group.begin(), group.end(), [&](auto gpu) { return health.slowdown(gpu) > 1; }));
    first.push_back(group.front());
  }
  // A rank that stands for several counts once for each of them.
  std::map<std::pair<std::uint32_t, std::uint16_t>, Faulted::Waits> by_awaited;
  for (const auto& wait : timeline::waiting(graph, timeline)) {
    if (!slow[wait.awaited.index()] || slow[wait.rank.index()]) continue;
    const auto awaited = first[wait.awaited.index()];
    auto& sum = by_awaited[{awaited, wait.axes.bits()}];
    const auto gpus = graph.ranks()[wait.rank.index()].multiplicity;
    sum.awaited = awaited, sum.node = graph.ranks()[wait.awaited.index()].node, sum.axes = wait.axes;
    sum.gpus += gpus;
    sum.mean += wait.time * std::int64_t(gpus);
    sum.most = std::max(sum.most, wait.time);
  }
  std::vector<Faulted::Waits> all;
  for (auto& [key, sum] : by_awaited) all.push_back(sum);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.mean > b.mean; });
  if (all.size() > kMostWaits) all.resize(kMostWaits);
  for (auto& waits : all) waits.mean = Time(waits.mean.count() / waits.gpus);
  return all;
}

}  // namespace

Faulted faulted(const LoweredJob& lowered, const timeline::Timeline& timeline) {
  const auto& scenario = lowered.scenario;
  Faulted answer;
  answer.without = iteration_with(scenario, {});
  const Time now = timeline.makespan();
  for (std::size_t i = 0; i < scenario.faults.size() && scenario.faults.size() <= kMostFaults; ++i) {
    auto others = scenario.faults;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const Time without = others.empty() ? answer.without : iteration_with(scenario, std::move(others));
    answer.each.push_back({cluster::describe(scenario.faults[i]), now - without});
  }
  answer.waits = waits_for_slow(lowered, timeline);
  answer.anomaly = now < answer.without || std::any_of(answer.each.begin(), answer.each.end(),
                                                       [](const auto& one) { return one.cost < Time{}; });
  return answer;
}

std::optional<std::string> anomaly_of_faults(const Faulted& faulted, Time iteration) {
  if (!faulted.anomaly) return std::nullopt;
  Time gained = faulted.without - iteration;
  for (const auto& [fault, cost] : faulted.each) gained = std::max(gained, Time{} - cost);
  return fmt::format(
      "scheduling anomaly: the step is up to {} shorter with a fault than without it. A fault makes nothing faster: "
      "ranks that it holds up share links and processors with others at other times. Take the longer of the two times",
      show(gained));
}

}  // namespace rehearsal::answer
