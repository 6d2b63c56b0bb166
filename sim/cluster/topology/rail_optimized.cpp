// NIC i of every node hangs on a leaf of rail i, leaves on spines, as in NVIDIA's DGX SuperPOD reference designs. A
// message to another rail climbs to a spine, or first crosses the NVSwitch to the GPU on the right rail (NCCL's PXN),
// whichever has the smaller latency.
#include "cluster/rails.hpp"

namespace rehearsal::cluster {

void register_rail_optimized(Registry& registry) {
  Topology t;
  t.name = "rail-optimized";
  t.summary = "Joins nodes: NIC i of every node on a leaf of rail i, leaves of all rails on spines.";
  rails(t);
  t.path = [](const Machine& m, std::int64_t a, std::int64_t b, std::int64_t stripe) {
    const auto from = m.nic(a, stripe).index, to = m.nic(b, stripe).index;
    const bool one_leaf = a / below_leaf(m) == b / below_leaf(m);  // else both ways climb
    const bool proxied = from != to && one_leaf && m.domain() > 1 && m.spec().nvlink_latency <= kSwitchLatency * 2;
    return along_rails(m, a, b, stripe, proxied);
  };
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
