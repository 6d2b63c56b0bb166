// One node: GPUs behind one logical NVSwitch, every pair at the full rate of a GPU's links.
#include <fmt/format.h>

#include "cluster/registry.hpp"

namespace rehearsal::cluster {
namespace {

constexpr std::uint32_t kNode = 0;

// A GPU has device id = rank, the switch comes after them.
NodeId the_switch(const Cluster& cluster) { return NodeId(static_cast<std::size_t>(cluster.gpus())); }

void check(const ClusterSpec& spec) {
  if (spec.nodes != 1) {
    throw UserError(fmt::format("topology 'nvswitch' is one node, but cluster '{}' has {}; use 'rail-optimized'",
                                spec.name, spec.nodes));
  }
  if (spec.gpus_per_node > 1 && spec.nvlink.value() <= 0)
    throw UserError(fmt::format("cluster '{}' needs the link rate 'nvlink' between its GPUs", spec.name));
}

void build_tables(Cluster& cluster) {
  const ClusterSpec& spec = cluster.spec();
  for (std::int64_t g = 0; g < spec.gpus_per_node; ++g)
    cluster.add_device({DeviceKind::gpu, kNode, static_cast<std::uint32_t>(g)});
  const NodeId hub = cluster.add_device({DeviceKind::nvswitch, kNode, 0});
  // GPU to GPU is two links and costs nvlink_latency: the first half up, the rest down. Halves are of whole
  // picoseconds.
  const Time half(spec.nvlink_latency.count() / 2);
  for (std::int64_t g = 0; g < spec.gpus_per_node; ++g) cluster.add_link(cluster.gpu(g), hub, spec.nvlink, half);
  cluster.route_by([](const Cluster& c, NodeId from, NodeId to) {
    const NodeId middle = the_switch(c);
    if (from == middle || to == middle) return std::vector{from, to};
    return std::vector{from, middle, to};
  });
}

TopologyPromise promise(const ClusterSpec& spec) {
  // Half of the GPUs send to the other half at their own link rate.
  const std::int64_t half = spec.gpus_per_node / 2;
  return {spec.nvlink * double(half), spec.gpus_per_node > 1 ? 2 : 0};
}

}  // namespace

void register_nvswitch(Registry& registry) {
  registry.add({"nvswitch", "One node: all GPUs behind one non-blocking switch (NVSwitch), two links apart.", check,
                build_tables, promise});
}

}  // namespace rehearsal::cluster
