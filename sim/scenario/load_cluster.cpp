#include <fmt/format.h>

#include "base/spelling.hpp"
#include "cluster/registry.hpp"
#include "cost/measured_gpu.hpp"
#include "scenario/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// What was measured of the GPU, in the place of its file's constants.
void measure_gpu(MapReader& map, const cost::Profile& profile, cluster::ClusterSpec& spec) {
  const auto& times = *profile.gpu;
  if (const auto why = cost::mismatch(times.gpu, spec.gpu); !why.empty())
    map.problems().error(
        map.at("profile"),
        fmt::format(
            "profile {} was measured on a GPU '{}', and cluster {} has the GPU '{}': {}; leave 'profile' out, or "
            "measure one of those",
            in_quotes(profile.name), times.gpu.name, in_quotes(spec.name), spec.gpu.name, why));
  else
    spec.gpu =
        cost::measured(std::move(spec.gpu), times, fmt::format("measured: profile {}, {}", profile.name, profile.date));
}

void check_topology(MapReader& map, const char* key, const std::string& name) {
  if (map.given(key) && !cluster::registry().find(name))
    map.problems().error(map.at(key), fmt::format("unknown topology {}{}", in_quotes(name),
                                                  suggestion(name, cluster::registry().names())));
}

}  // namespace

std::optional<ClusterChoice> load_cluster(Context& context, const Node& node) {
  auto& problems = context.problems;
  const auto before = problems.count();
  const Part part = resolve(context, node, "configs/clusters", "cluster");
  if (!part.node) return std::nullopt;

  Citations citations;
  MapReader map(problems, part.node, "cluster", node);
  map.cite(citations, "");
  ClusterChoice choice;
  choice.node = &node;
  auto& spec = choice.spec;
  spec.name = part.name;
  for (const char* key : kAbout) map.find(key);
  choice.profile = find_profile(context, map.find("profile"), part.name);
  map.fill(cluster_choice_fields(), &choice, {"gpu", "collectives"});
  if (choice.nodes && choice.gpus)
    problems.error(map.at("gpus"), "give either 'nodes' or 'gpus' (GPUs of one node), not both");
  if (choice.gpus && *choice.gpus > spec.gpus_per_node && problems.count() == before)
    problems.error(map.at("gpus"), fmt::format("'gpus' {} is more than one node holds ({}); use 'nodes'", *choice.gpus,
                                               spec.gpus_per_node));
  if (const Node* gpu = map.require("gpu", "a name of configs/gpus"))
    if (auto loaded = load_gpu(context, *gpu))
      spec.gpu = std::move(loaded->gpu), choice.flash_software = std::move(loaded->flash_software);
  if (choice.profile && choice.profile->gpu && problems.count() == before) measure_gpu(map, *choice.profile, spec);
  check_topology(map, "topology", spec.topology);
  check_topology(map, "one_node_topology", choice.one_node_topology);
  const Node* collectives = map.find("collectives");
  if (choice.profile) spec.profile = choice.profile->name;
  if (choice.profile && choice.profile->has_collectives()) {  // measured on the machine itself
    choice.curves = choice.profile->collectives;
    spec.collectives = choice.curves.name;
  } else if (collectives) {
    if (auto curves = load_curves(context, *collectives)) choice.curves = std::move(*curves);
    spec.collectives = choice.curves.name;
  }  // else none: priced from the links
  map.finish();
  if (problems.count() != before) return std::nullopt;

  spec.sources = std::move(citations.sources);
  spec.assumed = std::move(citations.assumed);
  return choice;
}

void size_cluster(Context& context, ClusterChoice& cluster, ParallelismChoice& parallelism) {
  auto& problems = context.problems;
  auto& spec = cluster.spec;
  auto& p = parallelism.value;
  if (cluster.gpus) spec.gpus_per_node = *cluster.gpus, spec.nodes = 1;
  if (cluster.nodes) spec.nodes = *cluster.nodes;
  if (spec.nodes > kDegree.high / spec.gpus_per_node) {
    problems.error(cluster.node->where(), fmt::format("{} nodes of {} GPUs are more than {} GPUs", spec.nodes,
                                                      spec.gpus_per_node, kDegree.high));
    return;
  }
  const bool sized = cluster.gpus || cluster.nodes;
  const auto others = p.tensor * p.pipeline;  // each is at most 1e6
  const auto tail = fmt::format("tensor {} x pipeline {}", p.tensor, p.pipeline);
  if (sized && !parallelism.data_given) {
    if (spec.gpus() % others != 0) {
      problems.error(parallelism.reader.place().where(),
                     fmt::format("{} = {} does not divide the {} GPUs of the cluster", tail, others, spec.gpus()));
      return;
    }
    p.data = spec.gpus() / others;
  }
  if (others > kDegree.high || p.data > kDegree.high / others) {
    problems.error(parallelism.reader.place().where(),
                   fmt::format("{} x data {} is more than {} GPUs", tail, p.data, kDegree.high));
    return;
  }
  const auto product = others * p.data;
  if (sized && product != spec.gpus()) {
    const auto fit = spec.gpus() % others == 0 ? fmt::format("; data {} would fit", spec.gpus() / others) : "";
    problems.error(parallelism.reader.at("data"),
                   fmt::format("{} x data {} = {} GPUs, but the cluster has {} ({} x {}){}", tail, p.data, product,
                               spec.gpus(), spec.nodes, spec.gpus_per_node, fit));
    return;
  }
  if (!sized) {
    const bool whole = product % spec.gpus_per_node == 0;
    if (product > spec.gpus_per_node && !whole) {
      problems.error(parallelism.reader.place().where(),
                     fmt::format("{} x data {} = {} GPUs are no whole number of nodes of {}", tail, p.data, product,
                                 spec.gpus_per_node));
      return;
    }
    spec.nodes = whole ? product / spec.gpus_per_node : 1;
    if (!whole) spec.gpus_per_node = product;
  }
  if (spec.nodes == 1) spec.topology = cluster.one_node_topology;
  if (spec.nodes > 1 && spec.nics_per_node == 0) {
    problems.error(cluster.node->where(), fmt::format("{} nodes need 'links.nic'", spec.nodes));
    return;
  }
  if (const auto* known = cluster::registry().find(spec.topology)) {
    try {
      if (known->check) known->check(spec);
    } catch (const UserError& e) {
      problems.error(cluster.node->where(), e.diagnostics()[0].message);
    }
  } else {
    problems.error(cluster.node->where(), fmt::format("unknown topology {}{}", in_quotes(spec.topology),
                                                      suggestion(spec.topology, cluster::registry().names())));
  }
}

}  // namespace rehearsal::scenario
