// Lanes: the concurrent in-order queues of a rank. Tasks of one lane start in the order of their ids; all that
// distinguishes a lane is in its row here. A new lane needs a name and a row; code that evaluates, performs or draws
// graphs reads the row (sim/design/messages-and-lanes.md).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/axes.hpp"
#include "graph/work.hpp"

namespace rehearsal::graph {

// The values are part of the digests of graphs: add new ones at the end.
enum class Lane : std::uint8_t {
  compute,
  tensor_comm,
  data_comm,
  send,
  receive,
  send_out,
  context_comm,
  expert_comm,
  copy_out,  // from the device to its host: one copy engine each way
  copy_in,
  host,  // what the host computes
  disk_read,
  disk_write,
  relay,  // forwards received values to other ranks
  relay_out,
  // Of a vocabulary that is cut over the pipeline: what its parts read, what they agree on, their sum.
  vocabulary_in,
  vocabulary_sums,
  vocabulary_out
};

enum class LaneKind : std::uint8_t { compute, collectives, sends, receives, tiers };

struct LaneInfo {
  Lane lane;
  const char* name;
  LaneKind kind;
  Axes axes;         // of collectives: the usual axes of their groups
  Category idle_is;  // category of the time in which computation waits for this lane
};

// Sends have a lane for each wire out of a rank: `send` over its port to the GPUs beside it, `send_out` over its NIC;
// relays have lanes of their own, so that they do not queue behind sends whose values are not computed yet.
inline constexpr std::array kLaneTable{
    LaneInfo{Lane::compute, "compute", LaneKind::compute, {}, Category::bubble},
    LaneInfo{Lane::tensor_comm, "tensor_comm", LaneKind::collectives, Axis::tensor, Category::tensor_comm},
    LaneInfo{Lane::data_comm, "data_comm", LaneKind::collectives, Axis::data, Category::data_comm},
    LaneInfo{Lane::send, "send", LaneKind::sends, {}, Category::pipeline_comm},
    LaneInfo{Lane::receive, "receive", LaneKind::receives, {}, Category::pipeline_comm},
    LaneInfo{Lane::send_out, "send_out", LaneKind::sends, {}, Category::pipeline_comm},
    LaneInfo{Lane::context_comm, "context_comm", LaneKind::collectives, Axis::context, Category::context_comm},
    LaneInfo{Lane::expert_comm, "expert_comm", LaneKind::collectives, Axis::expert, Category::expert_comm},
    LaneInfo{Lane::copy_out, "copy_out", LaneKind::tiers, {}, Category::offload},
    LaneInfo{Lane::copy_in, "copy_in", LaneKind::tiers, {}, Category::offload},
    LaneInfo{Lane::host, "host", LaneKind::tiers, {}, Category::offload},
    LaneInfo{Lane::disk_read, "disk_read", LaneKind::tiers, {}, Category::offload},
    LaneInfo{Lane::disk_write, "disk_write", LaneKind::tiers, {}, Category::offload},
    LaneInfo{Lane::relay, "relay", LaneKind::sends, {}, Category::pipeline_comm},
    LaneInfo{Lane::relay_out, "relay_out", LaneKind::sends, {}, Category::pipeline_comm},
    LaneInfo{Lane::vocabulary_in, "vocabulary_in", LaneKind::collectives, Axis::pipeline, Category::pipeline_comm},
    LaneInfo{Lane::vocabulary_sums, "vocabulary_sums", LaneKind::collectives, Axis::pipeline, Category::pipeline_comm},
    LaneInfo{Lane::vocabulary_out, "vocabulary_out", LaneKind::collectives, Axis::pipeline, Category::pipeline_comm},
};
inline constexpr std::size_t kLanes = kLaneTable.size();

constexpr const LaneInfo& info(Lane lane) { return kLaneTable[static_cast<std::size_t>(lane)]; }
// The lane of a collective that runs beside a kernel, in the group along an axis.
constexpr Lane lane_beside(Axis axis) {
  return axis == Axis::context ? Lane::context_comm : axis == Axis::tensor ? Lane::tensor_comm : Lane::expert_comm;
}
// The lane of copies from one tier to another. A GPU reaches disks through the memory of its host.
constexpr Lane lane_between(Tier from, Tier to) {
  if (to == Tier::nvme) return Lane::disk_write;
  if (from == Tier::nvme) return Lane::disk_read;
  return from == Tier::device ? Lane::copy_out : Lane::copy_in;
}
constexpr const char* name(Lane lane) { return info(lane).name; }
constexpr bool is_send(Lane lane) { return info(lane).kind == LaneKind::sends; }
// Messages in flight overlap, except while they occupy their wire; every other lane runs one task at a time.
constexpr bool is_serial(Lane lane) { return !is_send(lane) && info(lane).kind != LaneKind::receives; }

// Send lanes by number: each has its own wire.
inline constexpr std::uint8_t kNoWire = 7;
constexpr std::uint8_t wire_of(Lane lane) {
  std::uint8_t wire = 0;
  for (const LaneInfo& row : kLaneTable) {
    if (row.lane == lane) return is_send(lane) ? wire : kNoWire;
    if (row.kind == LaneKind::sends) ++wire;
  }
  return kNoWire;
}
inline constexpr std::size_t kWires = [] {
  std::size_t wires = 0;
  for (const LaneInfo& row : kLaneTable) wires += row.kind == LaneKind::sends;
  return wires;
}();
static_assert(kWires < kNoWire);
static_assert(
    [] {
      for (std::size_t i = 0; i < kLanes; ++i)
        if (kLaneTable[i].lane != static_cast<Lane>(i)) return false;
      return true;
    }(),
    "rows stand in the order of the names");

}  // namespace rehearsal::graph
