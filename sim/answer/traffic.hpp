// Who sends how much in an iteration, and which links that crosses: from the works of a graph, each as often as it
// runs.
//
// Counted are bytes that leave a GPU's memory for another GPU: of a collective what its algorithm sends (bytes sent by
// its busiest rank; neither headers nor what a switch copies), of a message its size. A coarse task counts the
// collectives inside of it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::answer {

struct LoweredJob;

// In bytes. `tensor`: collectives of the tensor group, also the gathers that put a sharded pipeline message together.
// `data`: gradients reduced and parameters gathered over the replicas. `pipeline`: activations and their gradients to
// neighbours, and the gradient of a tied embedding between both ends. `context`: keys and values; `expert`: tokens on
// their way to experts and back. Offload: from the host to the device, and back.
struct AxisBytes {
  double tensor = 0, context = 0, expert = 0, pipeline = 0, data = 0, offload_in = 0, offload_out = 0;

  struct Part {
    const char* name;
    double AxisBytes::*bytes;
  };
  static const std::vector<Part>& parts();
  friend bool operator==(const AxisBytes&, const AxisBytes&) = default;
};

// Links that are alike and carry as much: devices of the same kinds, the same rate, the same bytes.
struct LinkTraffic {
  // Inside an NVLink domain; to or from a NIC; between switches; between GPUs and their hosts; to disks.
  enum class Place : std::uint8_t { domain, nic, fabric, host, disk };
  std::string name;  // of the first of them: "node 0 NIC 2 to leaf 0.2"
  Place place;
  std::uint64_t count = 1;  // one way of a cable is a link
  double bytes = 0;         // over each
  double busy_share = 0;    // bytes / (rate x iteration)
  friend bool operator==(const LinkTraffic&, const LinkTraffic&) = default;
};

// Of the GPU that sends most over the data axis, beside what theory says (plan/data_volume.hpp).
struct DataParallelTraffic {
  double bytes = 0, closed_form_bytes = 0;
  std::string form;       // "2 Psi"
  double parameters = 0;  // Psi
  friend bool operator==(const DataParallelTraffic&, const DataParallelTraffic&) = default;
};

struct TrafficSummary {
  AxisBytes per_gpu;                                 // of each axis, by the GPU that sends most along it
  AxisBytes all_gpus;                                // together
  std::optional<DataParallelTraffic> data_parallel;  // of a framework with replicas
  std::vector<LinkTraffic> links;                    // busiest first; none where nothing says what surrounds works
  friend bool operator==(const TrafficSummary&, const TrafficSummary&) = default;
};

inline constexpr std::size_t kMostLinks = 20;  // of a summary; a class of equal links counts once

TrafficSummary traffic(const LoweredJob& lowered, Time iteration, std::size_t most_links = kMostLinks);

}  // namespace rehearsal::answer
