// A cluster as hosts of one machine: which namespaces there are, what joins them, and how much of it passes.
//
// Pure: says what is to be made and makes nothing. Every node is a host, every NIC and every link between switches a
// pair of interfaces, and every switch a place of its own, which bridges its ports, or routes where switches form rings
// (several spines, a torus, a dragonfly), because bridges allow none. Rates are those of the cluster divided by
// `scale`.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/faults.hpp"
#include "cluster/machine.hpp"

namespace rehearsal::hosts {

// A frame carries 4096 bytes, as those of InfiniBand do; of these and of its Ethernet header TCP leaves so much.
inline constexpr int kMtu = 4096;
inline constexpr double kPayload = double(kMtu - 20 - 20 - 12) / double(kMtu + 14);

// What two cores pass on through two shapers without becoming the bottleneck themselves.
inline constexpr Bandwidth kFastest{125e6};
inline constexpr std::int64_t kMostHosts = 64, kMostNics = 64;

struct Settings {
  double scale = 0;                       // 0: such that the fastest link has kFastest, and at least 1
  double efficiency = 1;                  // share of a link's rate that a stream of data reaches
  std::map<std::int64_t, double> loss{};  // share of the packets that a NIC loses on their way out, by its number
};

struct Place {
  std::string name;  // "node0", "leaf0-1"
  bool host = false;
};

struct End {
  std::size_t place = 0;  // of Plan::places
  std::string interface;
};

struct Cable {
  End a, b;                     // of a NIC: its host and its switch
  Bandwidth rate;               // of the scaled cluster, without faults; both ways
  double left = 1;              // share of it that faults leave; 0: the link is down
  Time latency;                 // of a message that leaves at `a` or, between switches, at either end
  double loss = 0;              // of packets that leave at `a`
  std::string nic{};            // "node 0 NIC 1", as faults name it; empty between switches
  std::string there{}, back{};  // both ways as predictions name them: "node 0 NIC 1 to leaf 0.0"
  bool down() const { return left == 0; }
};

// Where a switch that routes sends packets to an address; of all senders, or of one.
struct Way {
  std::size_t place = 0;
  std::string to, interface;
  std::string from{};
};

struct Plan {
  std::string topology;
  double scale = 1, efficiency = 1;
  std::int64_t slots = 1;     // GPUs of a node: ranks of a host
  std::vector<Place> places;  // hosts in the order of nodes, then switches
  std::size_t hosts = 0;
  std::int64_t nics = 1;  // of a host; number i is called nic<i> and has addresses of its own
  std::vector<Cable> cables;
  bool routed = false;
  std::vector<Way> ways;
  std::map<std::int64_t, double> loss;  // as asked

  // What the shapers of a link let pass: as much as leaves TCP the rate times the efficiency.
  Bandwidth wire(const Cable& cable) const { return cable.rate * (cable.left * efficiency / kPayload); }
};

std::string address(std::size_t host, std::int64_t nic);  // "10.77.0.1"
std::string address(const Cable& cable);                  // of its NIC; empty between switches

// Throws UserError: one node, more nodes than there can be hosts, NVLink between nodes, NICs that do not exist.
Plan plan(const cluster::Machine& machine, const std::vector<cluster::Fault>& faults, const Settings& settings);

}  // namespace rehearsal::hosts
