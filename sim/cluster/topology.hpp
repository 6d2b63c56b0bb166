// The interface of a topology: one plug-in = one file in topology/. There are two kinds: one describes the inside of a
// node (or of a rack that NVLink joins), the other joins the nodes; a machine (machine.hpp) has one of each.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "cluster/cluster.hpp"

namespace rehearsal::cluster {

class Machine;

enum class DeviceKind : std::uint8_t { gpu, nvswitch, pcie_switch, socket, nic, leaf, spine, core, router, named };
struct Device {
  DeviceKind kind;
  std::uint32_t place;  // node; NVLink domain of an NVSwitch; pod of a spine; 0 if there is only one
  std::uint32_t index;  // within its kind and place
  friend auto operator<=>(const Device&, const Device&) = default;
};

struct Link {  // directed; the reverse link is equal
  Bandwidth rate;
  Time latency;
};

// A message passes these devices, both ends included.
using Path = std::vector<Device>;

// A level of the fabric: it joins neighbouring domains of GPUs into larger ones. Level 0 joins NVLink domains, as a
// rule nodes.
struct Level {
  const char* name;    // "NIC", "leaf to spine"
  std::int64_t width;  // GPUs of a domain at this level
  Bandwidth out;       // of all GPUs of a domain of the level below, when they send into this level at once
  Time latency;        // of a message that goes up to this level, from GPU to GPU
  bool rails = false;  // each NIC of a node has its own part of that, shared only with its counterparts
};

// What half of the machine can send to the other half at once, and the links on its longest route.
struct ClosedFormBounds {
  Bandwidth bisection;
  std::int64_t diameter_hops;
};

enum class Unit : std::uint8_t { number, integer, rate };
struct Parameter {
  std::string name;
  Unit unit;
  double fallback, low, high;
  std::string help;
  bool list = false;  // several values
};

struct Topology {
  enum class Role : std::uint8_t { node, fabric, whole };  // whole: routes of every pair
  std::string name;
  std::string summary;
  Role role = Role::fabric;
  std::vector<Parameter> parameters{};
  std::function<void(const Machine&)> check{};  // throws UserError: what is missing or does not fit

  // From GPU to GPU by their ranks: within one domain for a node, from domain to domain for a fabric. Where a GPU has
  // several NICs, `stripe` counts through them.
  std::function<Path(const Machine&, std::int64_t from, std::int64_t to, std::int64_t stripe)> path{};
  std::function<Link(const Machine&, const Device&, const Device&)> link{};

  // For a node.
  bool uniform = false;                                          // every pair of GPUs is alike
  bool reduces = false;                                          // has switches, which may add (Interconnect)
  std::function<std::int64_t(const Machine&)> domain{};          // GPUs that it joins; none: those of a node
  std::function<Path(const Machine&, std::int64_t gpu)> exit{};  // devices from a GPU to where its NICs are
  // The rate of each GPU in NCCL's rings over `members` GPUs, `stride` apart; none: one ring in rank order.
  std::function<Bandwidth(const Machine&, std::int64_t stride, std::int64_t members)> port{};

  // For a fabric; none: flows are counted on their routes.
  std::function<std::vector<Level>(const Machine&)> levels{};

  std::function<ClosedFormBounds(const Machine&)>
      promise{};  // tests hold it against the routes; none where there is no form
};

}  // namespace rehearsal::cluster
