// Nodes of GPUs behind an NVSwitch; NIC i of every node hangs on leaf i (a rail), leaves on spines without blocking, as
// in NVIDIA's DGX SuperPOD reference designs. Leaf and spine are logical: one leaf stands for all switches of its rail.
// A message to another rail climbs to a spine, or first crosses the NVSwitch to the GPU on the right rail (NCCL's PXN),
// whichever has the smaller latency.
#include <fmt/format.h>

#include <algorithm>

#include "cluster/registry.hpp"

namespace rehearsal::cluster {
namespace {

constexpr std::uint32_t kFabric = 0xffffffff;
// Leaf to spine: about 500 ns per switch of an InfiniBand fabric (vendor data sheets: 130-500 ns); assumed.
constexpr Time kSwitchLatency = picoseconds(500'000);

// Where everything is: node k occupies a block of GPUs, one switch, NICs; after all nodes come leaves, then spines.
struct Layout {
  std::int64_t gpus, nics, nodes;
  // A single node has no fabric, so its NICs lead nowhere and are not built.
  explicit Layout(const ClusterSpec& s)
      : gpus(s.gpus_per_node), nics(s.nodes > 1 ? s.nics_per_node : 0), nodes(s.nodes) {}

  std::int64_t block() const { return gpus + 1 + nics; }
  static NodeId id(std::int64_t i) { return NodeId(static_cast<std::size_t>(i)); }
  NodeId gpu(std::int64_t node, std::int64_t g) const { return id(node * block() + g); }
  NodeId hub(std::int64_t node) const { return id(node * block() + gpus); }
  NodeId nic(std::int64_t node, std::int64_t rail) const { return id(node * block() + gpus + 1 + rail); }
  NodeId leaf(std::int64_t rail) const { return id(nodes * block() + rail); }
  NodeId spine(std::int64_t i) const { return id(nodes * block() + nics + i); }
  // A NIC serves gpus/nics GPUs; with more NICs than GPUs, a GPU's messages take the first of its own.
  std::int64_t rail(std::int64_t g) const { return nics <= gpus ? g / (gpus / nics) : g * (nics / gpus); }
  std::int64_t gpu_on(std::int64_t r) const { return nics <= gpus ? r * (gpus / nics) : r / (nics / gpus); }
};

void check(const ClusterSpec& spec) {
  const auto g = spec.gpus_per_node, n = spec.nics_per_node;
  if (g > 1 && spec.nvlink.value() <= 0)
    throw UserError(fmt::format("cluster '{}' needs the link rate 'nvlink' between the GPUs of a node", spec.name));
  if (spec.nodes == 1) return;
  if (n < 1 || (g % n != 0 && n % g != 0)) {
    throw UserError(
        fmt::format("cluster '{}': topology 'rail-optimized' needs 'nics_per_node' to divide the {} GPUs of a node (or "
                    "a multiple), "
                    "found {}",
                    spec.name, g, n));
  }
  if (spec.nic.value() <= 0) throw UserError(fmt::format("cluster '{}' needs the rate of one 'nic'", spec.name));
}

Time quarter_of_nic(const ClusterSpec& spec) { return Time(spec.nic_latency.count() / 4); }

void fill_node(Cluster& cluster, const Layout& at, std::int64_t node) {
  const ClusterSpec& spec = cluster.spec();
  const auto machine = static_cast<std::uint32_t>(node);
  for (std::int64_t g = 0; g < at.gpus; ++g)
    cluster.add_device({DeviceKind::gpu, machine, static_cast<std::uint32_t>(g)});
  cluster.add_device({DeviceKind::nvswitch, machine, 0});
  for (std::int64_t r = 0; r < at.nics; ++r)
    cluster.add_device({DeviceKind::nic, machine, static_cast<std::uint32_t>(r)});
  // nvlink_latency is GPU to GPU, nic_latency GPU to GPU of another node on the same rail (four links).
  for (std::int64_t g = 0; g < at.gpus; ++g) {
    cluster.add_link(at.gpu(node, g), at.hub(node), spec.nvlink, Time(spec.nvlink_latency.count() / 2));
    const std::int64_t own = at.nics == 0 ? 0 : std::max<std::int64_t>(1, at.nics / at.gpus);
    for (std::int64_t i = 0; i < own; ++i)
      cluster.add_link(at.gpu(node, g), at.nic(node, at.rail(g) + i), spec.nic, quarter_of_nic(spec));
  }
}

// Devices from one GPU to another.
std::vector<NodeId> path(const Cluster& cluster, NodeId from, NodeId to) {
  const ClusterSpec& spec = cluster.spec();
  const Layout at(spec);
  const Device& a = cluster.devices()[from.index()];
  const Device& b = cluster.devices()[to.index()];
  INVARIANT(a.kind == DeviceKind::gpu && b.kind == DeviceKind::gpu, "closed-form routes join GPUs");
  if (at.nodes == 1) return {from, at.hub(a.node), to};
  const std::int64_t ra = at.rail(a.index), rb = at.rail(b.index);
  const Time hop = quarter_of_nic(spec), across(spec.nvlink_latency.count() / 2 * 2), climb = kSwitchLatency * 2;
  const NodeId spine = at.spine((ra + rb) % at.nics);  // spread over the spines, the same in both directions

  if (a.node == b.node) {
    if (ra == rb && hop * 2 < across) return {from, at.nic(a.node, ra), to};
    if (ra != rb && hop * 4 + climb < across)
      return {from, at.nic(a.node, ra), at.leaf(ra), spine, at.leaf(rb), at.nic(b.node, rb), to};
    return {from, at.hub(a.node), to};
  }
  if (ra == rb) return {from, at.nic(a.node, ra), at.leaf(ra), at.nic(b.node, rb), to};
  if (across <= climb) {
    const NodeId proxy = at.gpu(a.node, at.gpu_on(rb));
    return {from, at.hub(a.node), proxy, at.nic(a.node, rb), at.leaf(rb), at.nic(b.node, rb), to};
  }
  return {from, at.nic(a.node, ra), at.leaf(ra), spine, at.leaf(rb), at.nic(b.node, rb), to};
}

void build_tables(Cluster& cluster) {
  const ClusterSpec& spec = cluster.spec();
  const Layout at(spec);
  for (std::int64_t node = 0; node < at.nodes; ++node) fill_node(cluster, at, node);
  cluster.route_by(path);
  if (at.nodes == 1) return;
  for (std::int64_t r = 0; r < at.nics; ++r)
    cluster.add_device({DeviceKind::leaf, kFabric, static_cast<std::uint32_t>(r)});
  for (std::int64_t s = 0; s < at.nics; ++s)
    cluster.add_device({DeviceKind::spine, kFabric, static_cast<std::uint32_t>(s)});
  for (std::int64_t node = 0; node < at.nodes; ++node)
    for (std::int64_t r = 0; r < at.nics; ++r)
      cluster.add_link(at.nic(node, r), at.leaf(r), spec.nic, quarter_of_nic(spec));
  // As much out of a leaf as into it, spread evenly over as many spines as there are rails.
  const Bandwidth uplink = spec.nic * (double(at.nodes) / double(at.nics));
  for (std::int64_t r = 0; r < at.nics; ++r)
    for (std::int64_t s = 0; s < at.nics; ++s) cluster.add_link(at.leaf(r), at.spine(s), uplink, kSwitchLatency);
}

TopologyPromise promise(const ClusterSpec& spec) {
  const std::int64_t half = spec.nodes == 1 ? spec.gpus_per_node / 2 : spec.nodes / 2;
  if (spec.nodes == 1) return {spec.nvlink * double(half), spec.gpus_per_node > 1 ? 2 : 0};
  // floor(nodes/2) machines send to the rest over all their NICs; rails do not block.
  return {spec.node_rate() * double(half), spec.nics_per_node > 1 ? 6 : 4};
}

}  // namespace

void register_rail_optimized(Registry& registry) {
  registry.add({"rail-optimized",
                "Nodes of GPUs behind NVSwitch; NIC i of every node on leaf i, leaves on spines without blocking.",
                check, build_tables, promise});
}

}  // namespace rehearsal::cluster
