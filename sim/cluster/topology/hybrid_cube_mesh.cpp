// Nodes of up to eight V100 without a switch, as in NVIDIA's DGX-1 and AWS p3: six NVLinks of each GPU lead to four
// others, one or two to each, so that pairs differ in rate (two GPUs behind one link all-reduce at 22 GB/s, eight at
// 134). NICs serve the GPUs of their PCIe switch; all nodes hang on one logical switch that does not block.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cluster/registry.hpp"

namespace rehearsal::cluster {
namespace {

constexpr std::uint32_t kFabric = 0xffffffff;
constexpr std::int64_t kMost = 8;
constexpr double kLinks = 6;  // of a V100
// NVLinks between two GPUs, as `nvidia-smi topo -m` prints them on a DGX-1 (NV1, NV2; SYS = none). Rows sum to 6.
constexpr std::array<std::array<int, kMost>, kMost> kMesh{{{0, 1, 1, 2, 2, 0, 0, 0},
                                                           {1, 0, 2, 1, 0, 2, 0, 0},
                                                           {1, 2, 0, 2, 0, 0, 1, 0},
                                                           {2, 1, 2, 0, 0, 0, 0, 1},
                                                           {2, 0, 0, 0, 0, 1, 1, 2},
                                                           {0, 2, 0, 0, 1, 0, 2, 1},
                                                           {0, 0, 1, 0, 1, 2, 0, 2},
                                                           {0, 0, 0, 1, 2, 1, 2, 0}}};

int links(std::int64_t a, std::int64_t b) { return kMesh[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)]; }

// Where everything is: node k occupies a block of GPUs and NICs; the switch of the fabric comes last.
struct Layout {
  std::int64_t gpus, nics, nodes;
  explicit Layout(const ClusterSpec& s)
      : gpus(s.gpus_per_node), nics(s.nodes > 1 ? s.nics_per_node : 0), nodes(s.nodes) {}

  static NodeId id(std::int64_t i) { return NodeId(static_cast<std::size_t>(i)); }
  NodeId gpu(std::int64_t node, std::int64_t g) const { return id(node * (gpus + nics) + g); }
  NodeId nic(std::int64_t node, std::int64_t g) const { return id(node * (gpus + nics) + gpus + g * nics / gpus); }
  NodeId fabric() const { return id(nodes * (gpus + nics)); }
};

void check(const ClusterSpec& spec) {
  const auto g = spec.gpus_per_node, n = spec.nics_per_node;
  if (g > kMost)
    throw UserError(fmt::format("topology 'hybrid-cube-mesh' joins at most {} GPUs, but a node of cluster '{}' has {}",
                                kMost, spec.name, g));
  if (g > 1 && spec.nvlink.value() <= 0)
    throw UserError(fmt::format("cluster '{}' needs the link rate 'nvlink' between the GPUs of a node", spec.name));
  if (spec.nodes == 1) return;
  if (n < 1 || g % n != 0)
    throw UserError(
        fmt::format("cluster '{}': topology 'hybrid-cube-mesh' needs 'nics_per_node' to divide the {} GPUs "
                    "of a node, found {}",
                    spec.name, g, n));
  if (spec.nic.value() <= 0) throw UserError(fmt::format("cluster '{}' needs the rate of one 'nic'", spec.name));
}

// nic_latency is GPU to GPU of another node: GPU, NIC, switch, NIC, GPU are four links.
Time quarter_of_nic(const ClusterSpec& spec) { return Time(spec.nic_latency.count() / 4); }

std::vector<NodeId> path(const Cluster& cluster, NodeId from, NodeId to) {
  const ClusterSpec& spec = cluster.spec();
  const Layout at(spec);
  const Device& a = cluster.devices()[from.index()];
  const Device& b = cluster.devices()[to.index()];
  INVARIANT(a.kind == DeviceKind::gpu && b.kind == DeviceKind::gpu, "closed-form routes join GPUs");
  const NodeId out = at.nic(a.node, a.index), in = at.nic(b.node, b.index);
  if (a.node != b.node) return {from, out, at.fabric(), in, to};
  const bool direct = links(a.index, b.index) > 0;
  const Time mesh = spec.nvlink_latency * (direct ? 1 : 2);
  if (at.nics > 0 && out == in && quarter_of_nic(spec) * 2 < mesh) return {from, out, to};
  if (at.nics > 0 && out != in && quarter_of_nic(spec) * 4 < mesh) return {from, out, at.fabric(), in, to};
  if (direct) return {from, to};
  std::int64_t middle = 0;
  while (links(a.index, middle) == 0 || links(middle, b.index) == 0) ++middle;
  return {from, at.gpu(a.node, middle), to};
}

void build_tables(Cluster& cluster) {
  const ClusterSpec& spec = cluster.spec();
  const Layout at(spec);
  for (std::int64_t node = 0; node < at.nodes; ++node) {
    const auto machine = static_cast<std::uint32_t>(node);
    for (std::int64_t g = 0; g < at.gpus; ++g)
      cluster.add_device({DeviceKind::gpu, machine, static_cast<std::uint32_t>(g)});
    for (std::int64_t n = 0; n < at.nics; ++n)
      cluster.add_device({DeviceKind::nic, machine, static_cast<std::uint32_t>(n)});
    for (std::int64_t a = 0; a < at.gpus; ++a)
      for (std::int64_t b = a + 1; b < at.gpus; ++b)
        if (const int n = links(a, b))
          cluster.add_link(at.gpu(node, a), at.gpu(node, b), spec.nvlink * (n / kLinks), spec.nvlink_latency);
    if (at.nics == 0) continue;
    for (std::int64_t g = 0; g < at.gpus; ++g)
      cluster.add_link(at.gpu(node, g), at.nic(node, g), spec.nic, quarter_of_nic(spec));
  }
  cluster.route_by(path);
  if (at.nodes == 1) return;
  cluster.add_device({DeviceKind::leaf, kFabric, 0});
  for (std::int64_t node = 0; node < at.nodes; ++node)
    for (std::int64_t n = 0; n < at.nics; ++n)
      cluster.add_link(at.nic(node, n * (at.gpus / at.nics)), at.fabric(), spec.nic, quarter_of_nic(spec));
}

TopologyPromise promise(const ClusterSpec& spec) {
  const auto g = spec.gpus_per_node;
  if (spec.nodes > 1) return {spec.node_rate() * double(spec.nodes / 2), 4};
  // The links that cross the middle: 6 of 24 of a whole node, 150 GB/s on V100.
  int crossing = 0;
  for (std::int64_t a = 0; a < g / 2; ++a)
    for (std::int64_t b = g / 2; b < g; ++b) crossing += links(a, b);
  return {spec.nvlink * (crossing / kLinks), g > 4 ? 2 : g > 1 ? 1 : 0};
}

}  // namespace

void register_hybrid_cube_mesh(Registry& registry) {
  registry.add({"hybrid-cube-mesh",
                "Nodes of up to 8 V100 joined by single and double NVLinks without a switch (DGX-1, p3); shared NICs.",
                check, build_tables, promise});
}

}  // namespace rehearsal::cluster
