// A cluster by itself, for questions that need no scenario.
#pragma once
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "collective/size_curve.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {

struct NamedCluster {
  cluster::ClusterSpec spec;
  collective::SizeCurves curves;  // measured inside a node; may be empty
  bool sized = false;             // `nodes` or `gpus` was given; else spec.nodes means nothing
  std::vector<std::string> warnings;
};

// `name` of configs/clusters, as a scenario's key `cluster` takes it; `sets` = KEY=VALUE of its keys.
// Throws UserError with everything that is wrong.
NamedCluster load_named_cluster(const std::string& name, const std::vector<std::string>& sets = {},
                                const Files& files = disk());

// Of configs/interconnects and configs/libraries. Throw UserError.
cluster::Interconnect named_interconnect(const std::string& name, const Files& files = disk());
std::vector<cluster::Library> named_libraries(const Files& files = disk());  // all, by name

}  // namespace rehearsal::scenario
