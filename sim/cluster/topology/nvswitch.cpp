// A node of GPUs behind one logical NVSwitch, every pair at the full rate of a GPU's links.
#include "cluster/fabric.hpp"
#include "cluster/registry.hpp"

namespace rehearsal::cluster {

void register_nvswitch(Registry& registry) {
  Topology t;
  t.name = "nvswitch";
  t.summary = "Inside a node: all GPUs behind one non-blocking switch (NVSwitch), two links apart.";
  through_nvswitch(t);
  registry.add(std::move(t));
}

}  // namespace rehearsal::cluster
