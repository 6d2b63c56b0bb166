#include <fmt/format.h>

#include "base/spelling.hpp"
#include "cluster/registry.hpp"
#include "cost/constants.hpp"
#include "cost/measured_gpu.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// What an inline cluster leaves out: the behaviour of NCCL on the NVSwitch machines that were measured.
constexpr double kMessageShare = 80. / 300;  // of NVLink that a pipeline send reaches (A100, Zero Bubble profile)
constexpr double kGatherShare = 220. / 300;  // all-gather that follows a sharded send
inline Time milliseconds(double ms) { return seconds(ms * 1e-3); }
inline Time microseconds(double us) { return seconds(us * 1e-6); }

void read_links(Context& context, MapReader& map, cluster::ClusterSpec& spec, Citations& citations) {
  auto& problems = context.problems;
  const auto assume = [&](const MapReader& m, const std::string& prefix, const char* key) {
    if (m.node() && !m.given(key))
      citations.assumed.push_back(prefix + key), citations.sources[prefix + key] = "default of an inline cluster";
  };
  const Node* links = map.require("links", "a mapping with 'nvlink' and, for several nodes, 'nic'");
  if (!links) return;
  MapReader kinds(problems, *links, "links");
  if (const Node* node = kinds.require("nvlink", "a mapping with the bandwidth inside a node")) {
    MapReader nvlink(problems, *node, "nvlink");
    nvlink.cite(citations, "nvlink.");
    for (const char* key : {"latency", "message", "gather"}) assume(nvlink, "nvlink.", key);
    spec.nvlink = nvlink.bandwidth("bandwidth");
    spec.nvlink_latency = nvlink.time("latency", true, microseconds(2));
    spec.nvlink_generation = int(nvlink.optional_integer("generation", {2, 5}).value_or(0));
    spec.nvlink_message = nvlink.bandwidth("message", spec.nvlink * kMessageShare);
    spec.nvlink_gather = nvlink.bandwidth("gather", spec.nvlink * kGatherShare);
    nvlink.finish();
  }
  if (const Node* node = kinds.find("nic")) {
    MapReader nic(problems, *node, "nic");
    nic.cite(citations, "nic.");
    for (const char* key : {"latency", "efficiency", "message_efficiency"}) assume(nic, "nic.", key);
    spec.nics_per_node = nic.integer("per_node", {1, 1024}, spec.gpus_per_node);
    spec.nic = nic.bandwidth("bandwidth");
    spec.nic_latency = nic.time("latency", true, microseconds(25));
    spec.nic_efficiency = nic.number("efficiency", kFraction, .85);
    spec.nics_per_group = nic.optional_integer("per_group", {1, 1024}).value_or(0);
    spec.fabric = nic.choice<double>("fabric",
                                     {{"infiniband", 1.},
                                      {"roce-tuned", cost::kFabricRoceTuned / cost::kFabricInfiniband},
                                      {"ecmp-one-leaf", cost::kFabricEcmpOneLeaf / cost::kFabricInfiniband},
                                      {"ecmp", cost::kFabricEcmp / cost::kFabricInfiniband}},
                                     {}, 1.);
    spec.nic_message_efficiency = nic.number("message_efficiency", kFraction, .9);
    nic.finish();
  }
  kinds.finish();
}

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

std::string topology(MapReader& map, const char* key, const char* fallback) {
  const auto name = map.text(key, fallback);
  map.takes_names(key, "topology", cluster::registry().names());
  if (map.given(key) && !cluster::registry().find(name))
    map.problems().error(map.at(key), fmt::format("unknown topology {}{}", in_quotes(name),
                                                  suggestion(name, cluster::registry().names())));
  return name;
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
  map.find("use"), map.find("name"), map.find("summary"), map.find("source");
  choice.profile = find_profile(context, map.find("profile"), part.name);
  choice.nodes = map.optional_integer("nodes", kDegree);
  choice.gpus = map.optional_integer("gpus", kDegree);
  if (choice.nodes && choice.gpus)
    problems.error(map.at("gpus"), "give either 'nodes' or 'gpus' (GPUs of one node), not both");
  spec.gpus_per_node = map.integer("gpus_per_node", {1, 1024});
  if (choice.gpus && *choice.gpus > spec.gpus_per_node && problems.count() == before)
    problems.error(map.at("gpus"), fmt::format("'gpus' {} is more than one node holds ({}); use 'nodes'", *choice.gpus,
                                               spec.gpus_per_node));
  if (const Node* gpu = map.require("gpu", "a name of configs/gpus"))
    if (auto loaded = load_gpu(context, *gpu))
      spec.gpu = std::move(loaded->gpu), choice.flash_software = std::move(loaded->flash_software);
  if (choice.profile && choice.profile->gpu && problems.count() == before) measure_gpu(map, *choice.profile, spec);
  read_links(context, map, spec, citations);
  spec.topology = topology(map, "topology", "rail-optimized");
  choice.one_node_topology = topology(map, "one_node_topology", "nvswitch");
  if (part.node && !map.given("message_overhead")) {
    citations.assumed.push_back("message_overhead");
    citations.sources["message_overhead"] = "default of an inline cluster";
  }
  spec.message_overhead = map.time("message_overhead", true, milliseconds(.25));
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
