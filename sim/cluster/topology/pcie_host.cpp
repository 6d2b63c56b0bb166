// Servers without NVLink: GPUs and NICs hang on the host (root complex or PCIe switches seen as one), so that all GPUs
// of a node share all of its NICs. The rate of a GPU's PCIe link is the spec's `nvlink`: the link inside a node. All
// nodes hang on one logical switch that does not block.
#include <fmt/format.h>

#include <algorithm>

#include "cluster/registry.hpp"

namespace rehearsal::cluster {
namespace {

constexpr std::uint32_t kFabric = 0xffffffff;

// Where everything is: node k occupies a block of GPUs, the host, NICs; the switch of the fabric comes last.
struct Layout {
  std::int64_t gpus, nics, nodes;
  explicit Layout(const ClusterSpec& s)
      : gpus(s.gpus_per_node), nics(s.nodes > 1 ? s.nics_per_node : 0), nodes(s.nodes) {}

  std::int64_t block() const { return gpus + 1 + nics; }
  static NodeId id(std::int64_t i) { return NodeId(static_cast<std::size_t>(i)); }
  NodeId gpu(std::int64_t node, std::int64_t g) const { return id(node * block() + g); }
  NodeId host(std::int64_t node) const { return id(node * block() + gpus); }
  NodeId nic(std::int64_t node, std::int64_t n) const { return id(node * block() + gpus + 1 + n); }
  NodeId fabric() const { return id(nodes * block()); }
};

void check(const ClusterSpec& spec) {
  if (spec.gpus_per_node > 1 && spec.nvlink.value() <= 0)
    throw UserError(fmt::format("cluster '{}' needs the rate of a GPU's link to the host ('nvlink')", spec.name));
  if (spec.nodes == 1) return;
  if (spec.nics_per_node < 1 || spec.nic.value() <= 0)
    throw UserError(fmt::format("cluster '{}': topology 'pcie-host' needs NICs and their rate", spec.name));
  if (spec.nvlink.value() <= 0)
    throw UserError(fmt::format("cluster '{}' needs the rate of a GPU's link to the host ('nvlink')", spec.name));
}

Time half_of_link(const ClusterSpec& spec) { return Time(spec.nvlink_latency.count() / 2); }
Time quarter_of_nic(const ClusterSpec& spec) { return Time(spec.nic_latency.count() / 4); }

// The host forwards: NICs are dealt out in turn, so that as many messages leave over each.
std::vector<NodeId> path(const Cluster& cluster, NodeId from, NodeId to) {
  const Layout at(cluster.spec());
  const Device& a = cluster.devices()[from.index()];
  const Device& b = cluster.devices()[to.index()];
  INVARIANT(a.kind == DeviceKind::gpu && b.kind == DeviceKind::gpu, "closed-form routes join GPUs");
  if (a.node == b.node) return {from, at.host(a.node), to};
  return {from,
          at.host(a.node),
          at.nic(a.node, a.index % at.nics),
          at.fabric(),
          at.nic(b.node, b.index % at.nics),
          at.host(b.node),
          to};
}

void build_tables(Cluster& cluster) {
  const ClusterSpec& spec = cluster.spec();
  const Layout at(spec);
  // GPU to GPU of another node costs nic_latency in all: its share between host and NIC is what the GPU's link leaves.
  const Time host_to_nic = std::max(Time{}, quarter_of_nic(spec) - half_of_link(spec));
  for (std::int64_t node = 0; node < at.nodes; ++node) {
    const auto machine = static_cast<std::uint32_t>(node);
    for (std::int64_t g = 0; g < at.gpus; ++g)
      cluster.add_device({DeviceKind::gpu, machine, static_cast<std::uint32_t>(g)});
    cluster.add_device({DeviceKind::host, machine, 0});
    for (std::int64_t n = 0; n < at.nics; ++n)
      cluster.add_device({DeviceKind::nic, machine, static_cast<std::uint32_t>(n)});
    for (std::int64_t g = 0; g < at.gpus; ++g)
      cluster.add_link(at.gpu(node, g), at.host(node), spec.nvlink, half_of_link(spec));
    for (std::int64_t n = 0; n < at.nics; ++n) cluster.add_link(at.host(node), at.nic(node, n), spec.nic, host_to_nic);
  }
  cluster.route_by(path);
  if (at.nodes == 1) return;
  cluster.add_device({DeviceKind::leaf, kFabric, 0});
  for (std::int64_t node = 0; node < at.nodes; ++node)
    for (std::int64_t n = 0; n < at.nics; ++n)
      cluster.add_link(at.nic(node, n), at.fabric(), spec.nic, quarter_of_nic(spec));
}

TopologyPromise promise(const ClusterSpec& spec) {
  const auto g = double(spec.gpus_per_node);
  if (spec.nodes == 1) return {spec.nvlink * double(spec.gpus_per_node / 2), spec.gpus_per_node > 1 ? 2 : 0};
  // floor(nodes/2) machines send what their NICs carry, or what their GPUs bring to the host.
  return {std::min(spec.node_rate(), spec.nvlink * g) * double(spec.nodes / 2), 6};
}

}  // namespace

void register_pcie_host(Registry& registry) {
  registry.add({"pcie-host",
                "Servers without NVLink: GPUs and NICs on one host over PCIe, every NIC shared by all GPUs.", check,
                build_tables, promise});
}

}  // namespace rehearsal::cluster
