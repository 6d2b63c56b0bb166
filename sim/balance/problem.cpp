#include "balance/problem.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"

namespace rehearsal::balance {
namespace {

// Slots are numbered with 32 bits and loads are squared; this limit keeps both far from overflow.
constexpr std::uint32_t kMostReplicas = 1'000'000;
constexpr double kLargestWeight = 1e18;

std::string multiples_near(std::uint32_t value, std::uint32_t of) {
  const auto lower = value / of * of;
  return lower ? fmt::format("{} or {}", lower, lower + of) : fmt::format("{}", lower + of);
}

void check_weights(const Problem& problem, std::vector<Fault>& faults) {
  for (std::uint32_t l = 0; l < problem.layers(); ++l) {
    const auto& layer = problem.weights[l];
    if (layer.size() != problem.experts())
      faults.push_back({"weights", fmt::format("layer {} has {} experts, but layer 0 has {}; all layers are alike", l,
                                               layer.size(), problem.experts())});
    for (std::size_t e = 0; e < layer.size(); ++e)
      if (!std::isfinite(layer[e]) || layer[e] < 0 || layer[e] > kLargestWeight)
        faults.push_back(
            {"weights", fmt::format("the load of expert {} in layer {} is {}; loads are numbers from 0 to {:g}", e, l,
                                    layer[e], kLargestWeight)});
  }
}

void check_nodes(const Problem& problem, bool even, std::vector<Fault>& faults) {
  const Shape shape = shape_of(problem);
  if (shape.experts % shape.groups != 0) {
    faults.push_back({"groups", fmt::format("{} groups do not divide {} experts; router groups are of equal size",
                                            shape.groups, shape.experts)});
    return;
  }
  if (shape.gpus % shape.nodes != 0) {
    faults.push_back({"gpus", fmt::format("{} GPUs do not divide over {} nodes; nearest: {}", shape.gpus, shape.nodes,
                                          multiples_near(shape.gpus, shape.nodes))});
    return;
  }
  if (even && shape.groups % shape.nodes != 0) {
    faults.push_back({"groups", fmt::format("{} groups do not divide over {} nodes, as 'hierarchical' asks of 'eplb'; "
                                            "'method: best' deals them out unevenly, 'policy: global' ignores them",
                                            shape.groups, shape.nodes)});
    return;
  }
  if (shape.groups < shape.nodes) {
    faults.push_back({"groups", fmt::format("{} groups leave some of {} nodes without experts; 'policy: global' "
                                            "spreads every group over all nodes",
                                            shape.groups, shape.nodes)});
    return;
  }
  for (std::uint32_t n = 0; n < shape.nodes; ++n) {
    const auto held = (shape.first_group(n + 1) - shape.first_group(n)) * shape.group_size();
    const auto room = shape.first_slot(shape.first_gpu(n + 1)) - shape.first_slot(shape.first_gpu(n));
    if (held <= room) continue;
    faults.push_back(
        {"replicas", fmt::format("node {} has {} slots for {} experts of its groups; give it more", n, room, held)});
    return;
  }
}

}  // namespace

std::string_view name(Policy policy) {
  switch (policy) {
    case Policy::automatic:
      return "auto";
    case Policy::hierarchical:
      return "hierarchical";
    case Policy::global:
      break;
  }
  return "global";
}

Shape shape_of(const Problem& problem) {
  Shape shape;
  shape.hierarchical = problem.policy == Policy::hierarchical ||
                       (problem.policy == Policy::automatic && problem.groups % problem.nodes == 0);
  shape.experts = problem.experts();
  shape.replicas = problem.replicas;
  shape.gpus = problem.gpus;
  if (shape.hierarchical) shape.groups = problem.groups, shape.nodes = problem.nodes;
  return shape;
}

std::vector<Fault> faults(const Problem& problem, bool even) {
  std::vector<Fault> found;
  if (problem.layers() == 0) found.push_back({"weights", "no layer is given"});
  if (problem.layers() > 0 && problem.experts() == 0) found.push_back({"weights", "layer 0 has no experts"});
  for (const auto& [key, value] :
       {std::pair{"groups", problem.groups}, {"nodes", problem.nodes}, {"gpus", problem.gpus}})
    if (value < 1) found.push_back({key, "must be at least 1"});
  if (!found.empty()) return found;
  check_weights(problem, found);
  if (problem.replicas < problem.experts())
    found.push_back({"replicas", fmt::format("{} replicas are fewer than {} experts; each expert needs one at least",
                                             problem.replicas, problem.experts())});
  if (problem.replicas > kMostReplicas)
    found.push_back({"replicas", fmt::format("{} replicas are more than {}", problem.replicas, kMostReplicas)});
  if (problem.replicas < problem.gpus)
    found.push_back({"gpus", fmt::format("{} replicas leave some of {} GPUs empty", problem.replicas, problem.gpus)});
  if (even && problem.replicas % problem.gpus != 0)
    found.push_back(
        {"replicas", fmt::format("{} replicas do not divide over {} GPUs, as 'eplb' asks; nearest: {}; "
                                 "'method: best' takes them as they are",
                                 problem.replicas, problem.gpus, multiples_near(problem.replicas, problem.gpus))});
  if (found.empty()) check_nodes(problem, even, found);
  return found;
}

void check(const Problem& problem, bool even) {
  std::vector<Diagnostic> diagnostics;
  for (const auto& fault : faults(problem, even))
    diagnostics.push_back({{}, fmt::format("'{}': {}", fault.key, fault.rule)});
  if (!diagnostics.empty()) throw UserError(std::move(diagnostics));
}

}  // namespace rehearsal::balance
