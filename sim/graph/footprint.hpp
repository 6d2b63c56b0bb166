// What a work needs of the machine while it runs, wherever that is: its speed when alone, and its load on the resources
// at its place (resource_table.hpp). Together they decide what happens when two works contend for a resource; alone a
// work lasts `moving` + `trailing`, its price.
//
// Everything is an integer, in the units below, because sharing is exact (sim/design/sharing.md).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "base/axes.hpp"
#include "base/units.hpp"
#include "base/wide.hpp"

namespace rehearsal::graph {

// Ways in which a work loads the machine. Each stands for a set of resources of every participant.
enum class Way : std::uint8_t {
  processors,  // the multiprocessors of its GPU
  memory,      // the GPU's own memory, read and written
  port,        // links inside an NVLink domain: from each member of a group to the next
  wire,        // links between domains: from each member to its counterpart in the next domain
  spread,      // the same, to its counterpart in every other domain
  path,        // of a message, from its sender to its receiver
  // port, wire and spread of the groups that a pass has along axes other than tensor.
  context_port,
  context_wire,
  context_spread,
  expert_port,
  expert_wire,
  expert_spread,
  expert_tensor_port,
  expert_tensor_wire,
  expert_tensor_spread,
  copy_out,  // between a GPU and its host
  copy_in,
  host_memory,
  disk_read,
  disk_write,
  rounds  // in which a persistent kernel gets onto the multiprocessors: one, or two where another kernel holds some
};
inline constexpr std::size_t kWays = 21;
constexpr Way along(Axis axis, Way way) {
  const auto base = axis == Axis::context         ? Way::context_port
                    : axis == Axis::expert        ? Way::expert_port
                    : axis == Axis::expert_tensor ? Way::expert_tensor_port
                                                  : Way::port;
  return static_cast<Way>(static_cast<std::size_t>(base) + static_cast<std::size_t>(way) -
                          static_cast<std::size_t>(Way::port));
}

struct Share {
  Way way;
  std::int64_t weight;    // of each resource, per unit of progress: capacity units
  std::int64_t hold = 0;  // held exclusively while it runs
  friend bool operator==(const Share&, const Share&) = default;
};

struct Footprint {
  Time moving;            // alone, at full rate
  Time trailing;          // then: message latency and other time without a kernel; loads no resource
  std::int64_t rate = 0;  // alone, in kRateUnit; fair sharing compares these: bytes
  std::vector<Share> shares;
  friend bool operator==(const Footprint&, const Footprint&) = default;
};

// The bytes that a work moves, whatever link time they take.
struct Moved {
  std::array<Bytes, kAxes> sent = {};  // by each participating rank, the busiest where they differ; by axis
  std::array<Bytes, kWays> over = {};  // over each resource of a way, per part of its load (resource_table.hpp)
  Bytes copied_in, copied_out;         // between a device and its host

  Bytes all() const {
    Bytes sum;
    for (const Bytes along : sent) sum += along;
    return sum;
  }
  void add(const Moved& other, std::int64_t times = 1) {
    for (std::size_t a = 0; a < kAxes; ++a) sent[a] += other.sent[a] * times;
    for (std::size_t w = 0; w < kWays; ++w) over[w] += other.over[w] * times;
    copied_in += other.copied_in * times, copied_out += other.copied_out * times;
  }
};
struct Volume {
  Moved own;
  Moved on_arrival;  // of a sharded message: its receivers all-gather it
};

// Rates are counted in units of so many bytes/s, capacities of links and memories in 1/kWhole of such a unit, those of
// multiprocessors in 1/kProcessor of one. So a weight per unit of progress has at least 20 significant bits.
inline constexpr double kRateUnit = 256;
inline constexpr std::int64_t kWhole = std::int64_t{1} << 24;
inline constexpr std::int64_t kProcessor = std::int64_t{1} << 48;
inline constexpr std::int64_t kLeastRate = std::int64_t{1} << 20;  // of kernels that hardly touch memory

// Of a link or a memory: whatever is derived from its rate fits, to the last bit.
inline Wide capacity(Bandwidth rate) { return static_cast<Wide>(rate.value() / kRateUnit * double(kWhole)); }
inline Wide capacity(std::int64_t multiprocessors) { return Wide{multiprocessors} * kProcessor; }

}  // namespace rehearsal::graph
