// How the GPUs of a node are connected, and which library runs their collectives: the constants that do not follow from
// rates. The rate of a link is part of the cluster, which does not define the kind of link.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/sources.hpp"
#include "base/units.hpp"
#include "base/version.hpp"

namespace rehearsal::cluster {

enum class LinkKind : std::uint8_t { nvlink, xgmi, pcie, memory };
const char* name(LinkKind kind);

// A kind of link as collective libraries find it (configs/interconnects/*.yaml). Shares are of the one-way rate sold.
struct Interconnect {
  std::string name;   // of its file: "nvlink-4"
  std::string title;  // in sentences: "NVLink 4"
  LinkKind kind = LinkKind::nvlink;
  double ring_share = 1;  // that rings reach
  Time launch;            // start of a collective
  Time step;              // of a ring: the latency of a link where a cluster does not say it
  Time ramp;              // r of T = ... + w + sqrt(r w), w = time on the wire (collective::Protocol)
  // Switches that add up what ranks send, where the topology has switches (Topology::reduces). 0: they cannot.
  double switch_share = 0;
  std::int64_t switch_ranks = 2;  // of a collective, from which on the library uses them
  Time switch_launch, switch_ramp;
  std::string library = "nccl";  // that runs collectives over it: a name in configs/libraries
  std::string basis;             // how good its constants are, in words
  Sources sources;
  std::vector<std::string> assumed;
};

// A library of collectives (configs/libraries/*.yaml): which algorithms it runs, since which of its versions.
struct Library {
  struct Entry {
    Version since, on_two_nodes;  // the latter for groups on exactly two nodes
  };
  std::string name;
  std::string title;                          // "NCCL"
  std::map<std::string, Entry> algorithms{};  // by the names of sim/collective/all
  bool nccl_protocols = true;                 // NCCL's buffers and its LL128 shape what it sends
};

}  // namespace rehearsal::cluster
