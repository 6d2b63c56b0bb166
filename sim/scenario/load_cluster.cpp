#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/spelling.hpp"
#include "cluster/fields.hpp"
#include "cluster/machine.hpp"
#include "cluster/registry.hpp"
#include "cost/measured_gpu.hpp"
#include "cost/measured_tiers.hpp"
#include "plan/layouts.hpp"
#include "scenario/cluster_file.hpp"
#include "scenario/fields.hpp"
#include "scenario/load.hpp"

namespace rehearsal::scenario {
namespace {

// Replaces the constants of the GPU's file by measured ones.
void measure_gpu(MapReader& map, const cost::Profile& profile, cluster::ClusterSpec& spec) {
  const auto& times = *profile.gpu;
  if (const auto why = cost::mismatch(times.gpu, spec.gpu); !why.empty())
    map.problems().error(map.at("profile"), fmt::format("profile {} was measured on GPU '{}', but cluster {} has GPU "
                                                        "'{}': {}; leave 'profile' out, or measure that GPU",
                                                        in_quotes(profile.name), times.gpu.name, in_quotes(spec.name),
                                                        spec.gpu.name, why));
  else
    spec.gpu =
        cost::measured(std::move(spec.gpu), times, fmt::format("measured: profile {}, {}", profile.name, profile.date));
}

std::vector<cluster::WrittenLink> written_links(Diagnostics& problems, const Node& list) {
  std::vector<cluster::WrittenLink> links;
  for (const auto& [link, at] : read_entries<cluster::WrittenLink>(problems, list, "links", cluster::written_links())) {
    if (link.from == link.to)
      problems.error(at->where(),
                     fmt::format("both ends of this link are '{}'; a link connects two devices", link.from));
    links.push_back(link);
  }
  return links;
}

// Groups of nodes, each with GPUs of one type; together they make up all nodes.
void read_groups(Context& context, MapReader& map, ClusterChoice& choice) {
  const Node* list = map.find("groups");
  if (!list) return;
  auto& problems = map.problems();
  if (list->kind != Node::Kind::sequence || list->items.empty()) {
    problems.error(list->where(),
                   fmt::format("'groups' must be a list of {{nodes: N, gpu: NAME}}; found {}", describe(*list)));
    return;
  }
  std::int64_t nodes = 0;
  for (const Node* item : list->items) {
    MapReader values(problems, *item, "groups");
    if (!values.node()) continue;
    auto& group = choice.spec.groups.emplace_back();
    group.nodes = values.integer("nodes", {1, 1'000'000});
    nodes += group.nodes;
    if (const Node* gpu = values.find("gpu"))
      if (auto loaded = load_gpu(context, *gpu)) group.gpu = std::move(loaded->gpu);
    values.finish();
  }
  if (choice.gpus || (choice.nodes && *choice.nodes != nodes))
    problems.error(list->where(),
                   fmt::format("'groups' have {} nodes together, but {} says otherwise; leave that out", nodes,
                               choice.gpus ? "'gpus'" : fmt::format("'nodes' {}", *choice.nodes)));
  choice.nodes = nodes;
}

const std::string kInterconnectKey = "links.scale_up.interconnect.";

// Reads the interconnect inside a node and its collective library. If neither is given, the topology decides the kind:
// PCIe for pcie-host, otherwise NVLink.
void read_interconnect(Context& context, const Node& cluster, ClusterChoice& choice) {
  auto& spec = choice.spec;
  const auto below = [](const Node* node, const char* key) {
    return node && node->kind == Node::Kind::map ? node->find(key) : nullptr;
  };
  const Node* nvlink = below(below(&cluster, "links"), "scale_up");
  const auto is_pcie = [&](const char* key) {
    const Node* topology = below(&cluster, key);
    if (const Node* name = below(topology, "name")) topology = name;
    return topology && topology->kind == Node::Kind::scalar && topology->text == "pcie-host";
  };
  const Node* named = said_interconnect(context, nvlink);
  const auto kind =
      is_pcie("topology") || is_pcie("node_topology") ? cluster::LinkKind::pcie : cluster::LinkKind::nvlink;
  auto links =
      named ? load_interconnect(context, *named) : assumed_interconnect(context, kind, nvlink ? *nvlink : cluster);
  if (!links) return;
  spec.interconnect = std::move(*links);
  if (auto library = library_of(context, spec.interconnect, named ? *named : cluster))
    spec.library = std::move(*library);
}

// A name, or {name: X, parameter: value, ...}; {links: [...]} needs no name.
void read_topology(MapReader& map, const char* key, cluster::TopologyChoice& choice, cluster::ClusterSpec& spec) {
  const Node* node = map.find(key);
  if (!node) return;
  auto& problems = map.problems();
  choice = {};
  const auto name_in = [](MapReader& from, const char* of, std::optional<std::string> usual) {
    return from.get(of, fields::name_of("topology"), usual, std::string());
  };
  if (node->kind != Node::Kind::map) {
    choice.name = name_in(map, key, "");
    return;
  }
  MapReader values(problems, *node, key);
  const Node* links = values.find("links");
  choice.name = name_in(values, "name", links ? std::optional<std::string>("links") : std::nullopt);
  const auto* topology = cluster::registry().find(choice.name);
  if (links) {
    if (choice.name != "links")
      problems.error(links->where(),
                     fmt::format("'links' replace a topology, but topology {} is named too; leave one of them out",
                                 in_quotes(choice.name)));
    spec.written = written_links(problems, *links);
  }
  if (!topology) return;
  for (const auto& p : topology->parameters) {
    if (!values.find(p.name)) continue;
    auto& into = choice.parameters[p.name];
    if (p.list) {
      const Node& list = *values.find(p.name);
      for (const Node* item : list.items)
        if (const auto n = read_integer(problems, *item, in_quotes(p.name), {1, static_cast<std::int64_t>(p.high)}))
          into.push_back(double(*n));
      if (into.empty()) problems.error(list.where(), fmt::format("'{}' must be a list of numbers", p.name));
    } else if (p.unit == cluster::Unit::rate) {
      into.push_back(values.bandwidth(p.name).value());
    } else if (p.unit == cluster::Unit::integer) {
      into.push_back(
          double(values.integer(p.name, {static_cast<std::int64_t>(p.low), static_cast<std::int64_t>(p.high)})));
    } else {
      into.push_back(values.number(p.name, {p.low, p.high}));
    }
  }
  values.finish();
}

}  // namespace

namespace {

// The fewest nodes that have so many GPUs.
std::int64_t nodes_for(std::int64_t gpus, const cluster::ClusterSpec& spec) {
  return (gpus + spec.gpus_per_node - 1) / spec.gpus_per_node;
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
  // All links between GPUs may be listed; a kernel then reaches the full rate of a link.
  const Node* written = part.node->find("links");
  if (written && written->kind != Node::Kind::sequence) written = nullptr;
  read_interconnect(context, *part.node, choice);
  map.fill(cluster_choice_fields(), &choice,
           {"gpu", "groups", "collectives", "topology", "node_topology", "links.scale_up.interconnect",
            "links.scale_up.generation", "links.scale_up.kind", written ? "links" : "gpu"});
  if (written) {
    spec.written = written_links(problems, *map.find("links"));
    spec.topology.name = "links";
    for (const auto& link : spec.written) spec.nvlink = std::max(spec.nvlink, link.rate);
    spec.nvlink_message = spec.nvlink_gather = spec.nvlink;
  }
  if (choice.nodes && choice.gpus) problems.error(map.at("gpus"), "give either 'nodes' or 'gpus', not both");
  if (choice.gpus && problems.count() == before) {
    const auto gpus = *choice.gpus, nodes = nodes_for(gpus, spec);
    if (gpus % nodes != 0)
      problems.error(map.at("gpus"),
                     fmt::format("'gpus' {} cannot be divided equally over {} nodes of {} GPUs; nearest: {} or {}",
                                 gpus, nodes, spec.gpus_per_node, gpus / nodes * nodes, (gpus / nodes + 1) * nodes));
    if (nodes > 1 && map.given("groups"))
      problems.error(map.at("gpus"),
                     "'gpus' takes the same share of every node, and 'groups' of different nodes do not allow that; "
                     "give each group its 'nodes'");
  }
  if (const Node* gpu = map.require("gpu", "a name of configs/gpus"))
    if (auto loaded = load_gpu(context, *gpu))
      spec.gpu = std::move(loaded->gpu), choice.flash_framework = std::move(loaded->flash_framework);
  read_groups(context, map, choice);
  if (choice.profile && choice.profile->gpu && problems.count() == before) measure_gpu(map, *choice.profile, spec);
  if (choice.profile && choice.profile->tiers) spec = cost::with_tiers(std::move(spec), *choice.profile);
  read_topology(map, "topology", spec.topology, spec);
  read_topology(map, "node_topology", spec.node_topology, spec);
  const Node* collectives = map.nullable("collectives");
  if (choice.profile) spec.profile = choice.profile->name;
  if (choice.profile && choice.profile->has_collectives()) {  // collectives measured on this machine
    choice.curves = choice.profile->collectives;
    spec.collectives = choice.curves.name;
  } else if (collectives) {
    if (auto curves = load_curves(context, *collectives, &spec)) choice.curves = std::move(*curves);
    spec.collectives = choice.curves.name;
  }  // otherwise collectives are priced from the links
  map.finish();
  if (problems.count() != before) return std::nullopt;

  spec.sources = std::move(citations.sources);
  spec.assumed = std::move(citations.assumed), spec.fitted = std::move(citations.fitted);
  for (const auto& key : spec.interconnect.assumed) spec.assumed.push_back(kInterconnectKey + key);
  for (const auto& [key, source] : spec.interconnect.sources) spec.sources[kInterconnectKey + key] = source;
  return choice;
}

namespace {

// Per-stage layouts determine the number of GPUs, or must fit within a given number.
void size_laid_out(Context& context, ClusterChoice& cluster, ParallelismChoice& parallelism) {
  auto& problems = context.problems;
  auto& spec = cluster.spec;
  const auto& layouts = parallelism.value.layouts;
  const auto seats = plan::seats_of(layouts);
  const std::int64_t gpus = *std::max_element(seats.begin(), seats.end()) + std::int64_t{1};
  if (!cluster.gpus && !cluster.nodes) {
    spec.nodes = (gpus + spec.gpus_per_node - 1) / spec.gpus_per_node;
    if (spec.nodes == 1) spec.gpus_per_node = std::min(spec.gpus_per_node, gpus);
  } else if (gpus > spec.gpus()) {
    problems.error(cluster.node->where(), fmt::format("'stages' use {} GPUs, but the cluster has {} ({} x {})", gpus,
                                                      spec.gpus(), spec.nodes, spec.gpus_per_node));
    return;
  }
  if (const auto* named = cluster::registry().find(spec.topology.name);
      spec.nodes == 1 && named && named->role == cluster::Topology::Role::fabric)
    spec.topology = std::exchange(spec.node_topology, {});
  if (problems.count() > 0) return;
  try {
    const cluster::Machine machine(spec);
  } catch (const UserError& e) {
    problems.error(cluster.node->where(), e.diagnostics()[0].message);
  }
}

// The job gets the first GPUs of a node that it shares with others, and the host domains next to them.
void take_part_of_node(cluster::ClusterSpec& spec, std::int64_t gpus) {
  auto& host = spec.host;
  const std::int64_t each = std::max<std::int64_t>(1, spec.gpus_per_node / host.domains), all = host.domains;
  const std::int64_t met = std::min(all, (gpus + each - 1) / each);
  const double share = double(met) / double(all);
  if (host.cores) host.cores = std::max<std::int64_t>(1, *host.cores * met / all);
  if (host.memory) host.memory = bytes(double(host.memory->count()) * share);
  if (host.memory_bandwidth) host.memory_bandwidth = *host.memory_bandwidth * share;
  host.domains = met;
  spec.gpus_per_node = gpus;
}

// A node whose links end at a part of its GPUs is as many nodes, each with its share of NICs and of the host. False,
// with a problem, where they do not divide.
bool split_by_links(Context& context, ClusterChoice& cluster) {
  auto& spec = cluster.spec;
  const auto part = spec.nvlink_domain, whole = spec.gpus_per_node;
  if (part == 0 || part >= whole) return true;
  const auto nodes = whole / part;
  if (whole % part != 0 || spec.nics_per_node % nodes != 0) {
    context.problems.error(cluster.node->where(),
                           fmt::format("'links.scale_up.domain' {} does not divide the {} GPUs and {} NICs of a node",
                                       part, whole, spec.nics_per_node));
    return false;
  }
  take_part_of_node(spec, part);
  spec.nodes *= nodes, spec.nics_per_node /= nodes;
  if (cluster.nodes) *cluster.nodes *= nodes;
  for (auto& group : spec.groups) group.nodes *= nodes;
  return true;
}

}  // namespace

void size_cluster(Context& context, ClusterChoice& cluster, ParallelismChoice& parallelism, std::int64_t more_nodes) {
  auto& problems = context.problems;
  auto& spec = cluster.spec;
  auto& p = parallelism.value;
  if (!split_by_links(context, cluster)) return;
  if (cluster.gpus) {
    spec.nodes = nodes_for(*cluster.gpus, spec);
    const auto each = *cluster.gpus / spec.nodes, all = spec.gpus_per_node;
    // Of several nodes the NICs count: those beside the GPUs that are taken.
    if (spec.nodes > 1) spec.nics_per_node = (spec.nics_per_node * each + all - 1) / all;
    take_part_of_node(spec, each);
  }
  if (cluster.nodes) spec.nodes = *cluster.nodes;
  if (spec.nodes > kDegree.high / spec.gpus_per_node) {
    problems.error(cluster.node->where(), fmt::format("{} nodes of {} GPUs exceed the limit of {} GPUs", spec.nodes,
                                                      spec.gpus_per_node, kDegree.high));
    return;
  }
  const bool sized = cluster.gpus || cluster.nodes;
  if (!p.layouts.empty()) return size_laid_out(context, cluster, parallelism);
  const auto others = p.tensor * p.context * p.pipeline;  // each is at most 1e6
  const auto tail = fmt::format("tensor {} x {}pipeline {}", p.tensor,
                                p.context > 1 ? fmt::format("context {} x ", p.context) : "", p.pipeline);
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
                   fmt::format("{} x data {} exceeds the limit of {} GPUs", tail, p.data, kDegree.high));
    return;
  }
  const auto product = others * p.data;
  std::int64_t most = kDegree.high;  // GPUs that a node may have
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
                     fmt::format("{} x data {} = {} GPUs do not fill whole nodes of {} GPUs", tail, p.data, product,
                                 spec.gpus_per_node));
      return;
    }
    spec.nodes = whole ? product / spec.gpus_per_node : 1;
    most = spec.gpus_per_node;
    if (!whole) take_part_of_node(spec, product);
  }
  if (spec.nodes > 1 || spec.nics_per_node > 0) {
    spec.nodes += more_nodes;
  } else if (more_nodes > most - product) {
    problems.error(cluster.node->where(),
                   fmt::format("{} workers and {} dedicated servers do not fit on {} GPUs, and a node without NICs "
                               "cannot be joined by another; set data_parallel.placement to colocated",
                               product, more_nodes, most));
    return;
  } else {
    spec.gpus_per_node += more_nodes;
  }
  // A single node has no fabric: its own topology is the whole topology.
  if (const auto* named = cluster::registry().find(spec.topology.name);
      spec.nodes == 1 && named && named->role == cluster::Topology::Role::fabric)
    spec.topology = std::exchange(spec.node_topology, {});
  if (problems.count() > 0) return;
  try {
    const cluster::Machine machine(spec);
  } catch (const UserError& e) {
    problems.error(cluster.node->where(), e.diagnostics()[0].message);
  }
}

namespace {

// {use: name}, so that --set can replace keys below it.
const Node* used(Context& context, const std::string& name) {
  auto& documents = context.documents;
  Node* map = documents.make(Node::Kind::map, *documents.read_text("{}", "--cluster " + name));
  map->line = map->column = 0;
  Node* key = documents.make(Node::Kind::scalar, *map);
  Node* use = documents.make(Node::Kind::scalar, *map);
  key->text = "use", use->text = name;
  map->entries.push_back({key, use});
  return map;
}

// A file of the user's own, which describes a cluster or is a scenario that has one.
const Node* cluster_of(Context& context, const std::string& file) {
  const Node* root = context.documents.read_file(file);
  const Node* cluster = root ? root->find("cluster") : nullptr;
  if (!cluster) return root;
  if (root->find("faults"))
    context.problems.warn(root->find("faults")->where(), "faults are no part of a cluster; name them by --faults");
  return cluster->kind == Node::Kind::scalar ? used(context, cluster->text) : cluster;
}

}  // namespace

NamedCluster load_named_cluster(const std::string& name, std::vector<std::string> sets, const Files& files) {
  Context context(files);
  // As keys of a scenario are called, too.
  constexpr std::string_view kSection = "cluster.";
  for (auto& set : sets)
    if (set.starts_with(kSection)) set.erase(0, kSection.size());
  const bool own = name.ends_with(".yaml");
  const Node* root = context.documents.set(own ? cluster_of(context, name) : used(context, name), sets);
  auto choice = root ? load_cluster(context, *root) : std::nullopt;
  if (choice) split_by_links(context, *choice);
  context.problems.throw_if_any();
  NamedCluster cluster{choice->spec, choice->curves, choice->nodes || choice->gpus, {}};
  if (own && cluster.spec.name == "inline") cluster.spec.name = name;
  if (choice->gpus) {
    cluster.spec.nodes = nodes_for(*choice->gpus, cluster.spec);
    take_part_of_node(cluster.spec, *choice->gpus / cluster.spec.nodes);
  }
  if (choice->nodes) cluster.spec.nodes = *choice->nodes;
  for (const auto& w : context.problems.warnings()) cluster.warnings.push_back(w.message);
  return cluster;
}

}  // namespace rehearsal::scenario
