// Every topology of the house by name.
#pragma once
#include "base/registry.hpp"
#include "cluster/topology.hpp"

namespace rehearsal::cluster {

using Registry = PluginRegistry<Topology>;

void register_topology(Registry& registry);  // generated from the file names of topology/
const Registry& registry();

}  // namespace rehearsal::cluster
