// What rail-optimized and rail-only share: leaves of a rail, and spines above them.
#pragma once
#include "cluster/fabric.hpp"
#include "cluster/registry.hpp"

namespace rehearsal::cluster {

// GPUs whose NICs meet on the leaves of their rails.
inline std::int64_t below_leaf(const Machine& m) {
  return whole_domains(m, static_cast<std::int64_t>(m.parameter("nodes_per_leaf")) * m.spec().gpus_per_node);
}

// `own_spines`: of each rail, nothing joins two. `proxied`: over NVLink to the GPU of the own node that sits on the
// rail of the destination.
inline Path along_rails(const Machine& m, std::int64_t a, std::int64_t b, std::int64_t stripe, bool proxied,
                        bool own_spines = false) {
  const auto unit = [&](std::int64_t gpu) { return static_cast<std::uint32_t>(gpu / below_leaf(m)); };
  const auto rail = [&](std::int64_t gpu) { return m.nic(gpu, stripe).index; };
  if (proxied) {
    const auto proxy = m.gpu_at({DeviceKind::nic, m.gpu(a).place, rail(b)});
    Path path = m.inside().path(m, a, proxy, 0);
    path.pop_back();
    const Path rest = along_rails(m, proxy, b, stripe, false, own_spines);
    path.insert(path.end(), rest.begin(), rest.end());
    return path;
  }
  const Device leaf{DeviceKind::leaf, unit(a), rail(a)}, other{DeviceKind::leaf, unit(b), rail(b)};
  if (leaf == other) return over(m, a, b, stripe, {leaf});
  // Routing is adaptive: all spines that a leaf reaches are as one.
  return over(m, a, b, stripe, {leaf, {DeviceKind::spine, 0, own_spines ? rail(a) : 0}, other});
}

inline void rails(Topology& t) {
  t.parameters = {
      {"nodes_per_leaf", Unit::integer, 0, 0, 1e6, "nodes whose NICs meet on one leaf of each rail; 0 = all of them"},
      {"oversubscription", Unit::number, 1, 1, 1000, "what comes into a leaf over what goes on to the spines"}};
  t.link = [](const Machine& m, const Device&, const Device&) {
    const double nodes = double(below_leaf(m)) / double(m.spec().gpus_per_node);  // a NIC of each on every leaf
    return Link{m.spec().nic * (nodes / m.parameter("oversubscription")), kSwitchLatency};
  };
  t.levels = [](const Machine& m) {
    auto levels = leaf_and_spine(m, below_leaf(m), m.parameter("oversubscription"));
    levels.back().rails = levels.size() > 1;
    return levels;
  };
}

}  // namespace rehearsal::cluster
