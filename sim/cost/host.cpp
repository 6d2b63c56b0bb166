// Traffic between a GPU, the memory of its host and the disks of its node, and computation on the host.
//
// Alone a copy has its whole link and a host step the memory of its node; footprints decide how much they get beside
// the other GPUs of a node, which share these (sim/design/memory-tiers.md).
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/range.hpp"
#include "cost/constants.hpp"
#include "cost/cost_model.hpp"
#include "cost/measured_tiers.hpp"
#include "graph/lanes.hpp"

namespace rehearsal::cost {
namespace {

using graph::Footprint;
using graph::Way;

template <class T>
T needed(const std::optional<T>& value, const char* key) {
  if (!value) throw UserError(fmt::format("offloading needs 'cluster.host.{}', which the cluster does not say", key));
  return *value;
}

struct Route {
  Way way;
  Bandwidth rate;
  Time latency;
};
Route route(const cluster::Host& host, const graph::Copy& w) {
  switch (graph::lane_between(w.from, w.to)) {
    case graph::Lane::copy_out:
      return {Way::copy_out, needed(host.pcie, "pcie.bandwidth"), host.pcie_latency};
    case graph::Lane::copy_in:
      return {Way::copy_in, needed(host.pcie, "pcie.bandwidth"), host.pcie_latency};
    case graph::Lane::disk_read:
      return {Way::disk_read, needed(host.nvme_read, "nvme.read"), host.nvme_latency};
    default:
      return {Way::disk_write, needed(host.nvme_write, "nvme.write"), host.nvme_latency};
  }
}

// After the latency, the bytes move at an even rate for the rest of the price.
Footprint evenly(Time price, Time latency, double bytes) {
  Footprint f;
  f.trailing = std::min(price, latency);
  f.moving = price - f.trailing;
  if (f.moving > Time{})
    f.rate = std::max(std::int64_t{1}, static_cast<std::int64_t>(bytes / to_seconds(f.moving) / graph::kRateUnit));
  return f;
}

}  // namespace

double CostModel::copy(const graph::Copy& w) const {
  if (const auto measured = measured_tiers() ? measured_copy(*measured_tiers(), w) : std::nullopt) return *measured;
  const auto& host = machine_.host;
  const auto way = route(host, w);
  const Bandwidth rate = std::min(way.rate, needed(host.memory_bandwidth, "memory_bandwidth"));
  return seconds_for(w.size, rate) + to_seconds(way.latency);
}

double CostModel::host_step(const graph::HostStep& w) const {
  if (const auto measured = measured_tiers() ? measured_step(*measured_tiers(), w) : std::nullopt) return *measured;
  const auto& host = machine_.host;
  const double cores = double(needed(host.cores, "cores")) / double(machine_.gpus_per_node);
  const Bandwidth memory = needed(host.memory_bandwidth, "memory_bandwidth") * (kHostStepShare / double(host.domains));
  return seconds_for(w.traffic, std::min(memory, host.core_bandwidth * cores));
}

Footprint CostModel::of_copy(const graph::Copy& w, Time price) const {
  const auto way = route(machine_.host, w);
  const double bytes = double(w.size.count());
  Footprint f = evenly(price, way.latency, bytes);
  if (f.moving == Time{}) return f;
  const double rate = bytes / to_seconds(f.moving) / double(w.turns);
  const bool measured = measured_tiers() && measured_copy(*measured_tiers(), w);
  if (!measured || way.way == Way::disk_read || way.way == Way::disk_write)
    f.shares.push_back({way.way, weight_of(f, rate)});
  if (measured) return f;
  f.shares.push_back({Way::host_memory, weight_of(f, rate)});
  if (w.from == Tier::device || w.to == Tier::device) f.shares.push_back({Way::memory, weight_of(f, rate)});
  return f;
}

// A loop that reaches a part of the sustained memory bandwidth still keeps memory busy.
Footprint CostModel::of_host_step(const graph::HostStep& w, Time price) const {
  Footprint f = evenly(price, Time{}, double(w.traffic.count()));
  if (f.moving == Time{}) return f;
  if (measured_tiers() && measured_step(*measured_tiers(), w)) {  // by all cores, of which a rank has its part
    f.shares.push_back({Way::host_memory, weight_of(f, machine_.host.memory_bandwidth->value())});
    return f;
  }
  f.shares.push_back(
      {Way::host_memory, weight_of(f, double(w.traffic.count()) / to_seconds(f.moving) / kHostStepShare)});
  return f;
}

graph::Moved CostModel::moved(const graph::Copy& w) const {
  graph::Moved moved;
  const Bytes part = bytes(double(w.size.count()) / double(w.turns));
  const auto lane = graph::lane_between(w.from, w.to);
  if (lane == graph::Lane::copy_in) moved.copied_in = part;
  if (lane == graph::Lane::copy_out) moved.copied_out = part;
  moved.over[static_cast<std::size_t>(route(machine_.host, w).way)] = part;
  return moved;
}

}  // namespace rehearsal::cost
