// A cluster on its own, for commands that need no scenario.
#pragma once
#include <string>
#include <vector>

#include "cluster/faults.hpp"
#include "collective/size_curve.hpp"
#include "scenario/files.hpp"

namespace rehearsal::scenario {

struct NamedCluster {
  cluster::ClusterSpec spec;
  collective::SizeCurves curves;  // measured inside a node; may be empty
  bool sized = false;             // `nodes` or `gpus` was given; otherwise spec.nodes is meaningless
  std::vector<std::string> warnings;
};

// `name`: in configs/clusters, or a file, which describes a cluster or is a scenario that has one; `sets`: KEY=VALUE of
// its keys, with or without "cluster." before them. Throws UserError with all errors at once.
NamedCluster load_named_cluster(const std::string& name, std::vector<std::string> sets = {},
                                const Files& files = disk());

// `faults` of a scenario as a text of its own: "[{nic: 3, rate: 0}]", for that machine. Throws UserError.
std::vector<cluster::Fault> named_faults(const std::string& text, const cluster::ClusterSpec& machine,
                                         const Files& files = disk());

// By name in configs/interconnects; all of configs/libraries. Both throw UserError.
cluster::Interconnect named_interconnect(const std::string& name, const Files& files = disk());
std::vector<cluster::Library> named_libraries(const Files& files = disk());  // sorted by name

}  // namespace rehearsal::scenario
