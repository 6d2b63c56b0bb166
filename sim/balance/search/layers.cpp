#include "balance/search/layers.hpp"

#include <algorithm>
#include <memory>

#include "balance/eplb.hpp"
#include "balance/search/layer.hpp"
#include "base/parallel.hpp"

namespace rehearsal::balance {

// Assumed rate of a core of a 2.5 GHz server of 2021; a constant, because results must not depend on the machine.
constexpr double kStepsPerSecond = 8e6;

Effort effort_within(Time limit) { return {static_cast<std::int64_t>(to_seconds(limit) * kStepsPerSecond), 1}; }

namespace search {

Plan best(const Problem& problem, const Effort& effort) {
  const Shape shape = shape_of(problem);
  const auto layers = problem.layers();
  Placement start;
  if (shape.even()) start = eplb(problem);
  std::vector<std::unique_ptr<LayerSearch>> searches(layers);
  std::vector<std::int64_t> left(layers);
  in_parallel(layers, effort.threads, [&](std::size_t l) {
    const auto known = start.layers ? start.slots(static_cast<std::uint32_t>(l)) : std::span<const std::int32_t>();
    searches[l] = std::make_unique<LayerSearch>(shape, problem.weights[l], known);
    left[l] = searches[l]->run(std::max<std::int64_t>(1, effort.steps / layers));
  });
  // Redistributes steps left over to unfinished layers, half at a time, in case these finish early as well.
  for (int round = 0; round < 3; ++round) {
    std::int64_t spare = 0, open = 0;
    for (std::uint32_t l = 0; l < layers; ++l) spare += left[l], left[l] = 0, open += !searches[l]->finished();
    if (open == 0 || spare / open < 1000) break;
    in_parallel(layers, effort.threads, [&](std::size_t l) {
      if (!searches[l]->finished()) left[l] = searches[l]->run(spare / open);
    });
  }
  Plan plan;
  std::vector<std::int32_t> phy2log;
  phy2log.reserve(std::size_t(layers) * shape.replicas);
  for (std::uint32_t l = 0; l < layers; ++l) {
    const auto slots = searches[l]->slots();
    phy2log.insert(phy2log.end(), slots.begin(), slots.end());
    const auto reached = max_over_mean(gpu_loads(shape, problem.weights[l], slots));
    const double worst = searches[l]->worst();
    plan.lower_bound.push_back(worst > 0 ? std::clamp(searches[l]->bound() / worst * reached, 1.0, reached) : 1.0);
  }
  plan.placement = placed(std::move(phy2log), layers, shape.experts);
  return plan;
}

Loads lower_bounds(const Problem& problem) {
  const Shape shape = shape_of(problem);
  Loads bounds;
  for (const auto& weights : problem.weights) {
    const Nodes nodes = nodes_of(shape);
    const auto partitions =
        partitions_below(1e300, shape, weights, nodes, [&](std::uint32_t kind, const Groups& groups) {
          return cell_bound(cell_of(shape, weights, nodes.kinds[kind], groups));
        });
    double sum = 0;
    for (const double w : weights) sum += w;
    bounds.push_back(sum > 0 ? std::max(1.0, partitions.bound * shape.gpus / sum) : 1.0);
  }
  return bounds;
}

}  // namespace search
}  // namespace rehearsal::balance
