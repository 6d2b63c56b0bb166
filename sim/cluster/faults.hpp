// Faults of a machine: slow GPUs, NICs and links at a part of their rate, times that vary. Faults are what a user
// specifies; the health of a machine is what follows for each of its parts.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/machine.hpp"

namespace rehearsal::cluster {

// As users write it: one of the first seven, which say what is wrong, and how much.
struct Fault {
  enum class Kind : std::uint8_t { gpu, nic, nvlink, link, jitter };
  std::optional<std::int64_t> gpu, nic;  // counted through the machine
  std::optional<std::int64_t> node;      // all of its GPUs
  std::optional<std::int64_t> nvlink;    // all links of a GPU inside its domain
  std::vector<std::string> link;         // a cable by its two ends, as reports name them: "node 0 NIC 1", "leaf 0.1"
  std::optional<double> share;           // of all GPUs (with `slowdown`) or NICs (with `rate`), drawn at random
  std::optional<double> jitter;          // standard deviation of a pass over its time
  std::optional<double> slowdown;        // kernels take so many times as long
  std::optional<double> rate;            // what is left of a NIC (0: it is down), of links, of a cable, both ways
  std::uint64_t seed = 0;

  Kind kind() const {
    if (jitter) return Kind::jitter;
    if (!link.empty()) return Kind::link;
    return nvlink ? Kind::nvlink : gpu || node || (share && slowdown) ? Kind::gpu : Kind::nic;
  }
};
std::string describe(const Fault& fault);  // "GPU 37: kernels take 1.2 times as long"

class Health {
 public:
  // Throws UserError: a part that the machine does not have, two faults on one part, a part that no fault can slow.
  Health(const Machine& machine, const std::vector<Fault>& faults);

  double slowdown(std::int64_t gpu) const { return gpus_[static_cast<std::size_t>(gpu)]; }
  double port(std::int64_t gpu) const { return ports_[static_cast<std::size_t>(gpu)]; }
  double link(const Device& from, const Device& to) const;  // share of its rate that is left, either way
  // The share of its narrowest rate that a path between two GPUs has left, without other traffic. Notes its cables.
  using Cables = std::set<std::pair<Device, Device>>;
  double left(const Machine& machine, std::int64_t from, std::int64_t to, std::int64_t stripe, Cables& crossed) const;
  // Throws UserError if a cable with a fault is not among these.
  void check_crossed(const Cables& crossed) const;
  bool links_sound() const { return nics_.empty() && cables_.empty() && sound_ports_; }

  bool jitters() const { return jitter_ > 0; }
  // Factor on the time of a pass, for each of kJitterLevels equally likely levels. The same group of ranks and pass
  // always has the same level.
  static constexpr std::uint32_t kJitterLevels = 32;
  double jitter(std::uint32_t level) const;
  std::uint32_t level(std::uint64_t ranks, std::uint64_t pass) const;

 private:
  void add(const Machine& machine, const Fault& fault);
  void go_round(const Machine& machine, std::int64_t node);
  void put(const Machine& machine, const Fault& fault, std::int64_t number);

  std::vector<double> gpus_, ports_;
  bool sound_ports_ = true;
  std::map<Device, double> nics_;
  std::map<std::pair<Device, Device>, double> cables_;
  double jitter_ = 0;
  std::uint64_t seed_ = 0;
};

// The machine as one collective of all its nodes meets it: rings go at the rate of their slowest member, so links
// inside the nodes and NICs have the least share that any member has left. Throws UserError, also for faults of
// kernels.
ClusterSpec with_faults(ClusterSpec spec, const std::vector<Fault>& faults);

}  // namespace rehearsal::cluster
