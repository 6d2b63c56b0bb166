// The bytes that each rank sends in an iteration and the links they cross: summed over the works of a graph, each as
// often as it runs.
//
// Counted are bytes that leave a GPU's memory for another GPU: for a collective, the bytes that its algorithm sends at
// its busiest rank (excluding headers and copies made by switches); for a message, its size. A coarse task counts the
// collectives inside it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::answer {

struct LoweredJob;

// In bytes. `tensor`: collectives of the tensor group, including gathers that reassemble a sharded pipeline message.
// `data`: gradients reduced and parameters gathered over the replicas. `pipeline`: activations and their gradients to
// neighbours, and the gradient of a tied embedding between both ends. `context`: keys and values. `expert`: tokens on
// their way to experts and back. Offload: from host to device, and back.
struct AxisBytes {
  double tensor = 0, context = 0, expert = 0, pipeline = 0, data = 0, offload_in = 0, offload_out = 0;

  struct Part {
    const char* name;
    double AxisBytes::*bytes;
  };
  static const std::vector<Part>& parts();
  friend bool operator==(const AxisBytes&, const AxisBytes&) = default;
};

// A class of links with equal device kinds, rates and traffic.
struct LinkTraffic {
  // Inside an NVLink domain; to or from a NIC; between switches; between GPU and host; to disks.
  enum class Place : std::uint8_t { domain, nic, fabric, host, disk };
  std::string name;  // of the first link: "node 0 NIC 2 to leaf 0.2"
  Place place;
  std::uint64_t count = 1;  // each direction of a cable is a link
  double bytes = 0;         // over each link
  double busy_share = 0;    // bytes / (rate x iteration)
  friend bool operator==(const LinkTraffic&, const LinkTraffic&) = default;
};

// Of the GPU that sends most over the data axis, beside the volume in theory (plan/data_volume.hpp).
struct DataParallelTraffic {
  double bytes = 0, closed_form_bytes = 0;
  std::string form;       // "2 Psi"
  double parameters = 0;  // Psi
  friend bool operator==(const DataParallelTraffic&, const DataParallelTraffic&) = default;
};

struct TrafficSummary {
  AxisBytes per_gpu;                                 // maximum over GPUs, for each axis separately
  AxisBytes all_gpus;                                // sum over GPUs
  std::optional<DataParallelTraffic> data_parallel;  // if a framework has replicas
  std::vector<LinkTraffic> links;                    // busiest first; empty without a resource map
  friend bool operator==(const TrafficSummary&, const TrafficSummary&) = default;
};

inline constexpr std::size_t kMostLinks = 20;  // in a summary; a class of equal links counts once

TrafficSummary traffic(const LoweredJob& lowered, Time iteration, std::size_t most_links = kMostLinks);

// The bytes over each link between nodes, one way, by its name: "node 0 NIC 2 to leaf 0.2". Links that nothing crosses
// are left out; empty for a job without places (LoweredJob::resource_map).
std::map<std::string, double> link_bytes(const LoweredJob& lowered);

}  // namespace rehearsal::answer
