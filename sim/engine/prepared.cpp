#include "engine/prepared.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::engine {
namespace {

using graph::EndpointKind;
using graph::Program;

Kind kind_of(const Program& program, std::size_t task) {
  if (program.endpoint[task] == graph::kNoEndpoint) return Kind::plain;
  switch (program.endpoints[program.endpoint[task]]) {
    case EndpointKind::send:
      return Kind::send;
    case EndpointKind::receive:
      return Kind::receive;
    case EndpointKind::group:
      return Kind::group;
  }
  return Kind::plain;
}

constexpr std::uint16_t slot_bit(std::uint8_t slot) { return static_cast<std::uint16_t>(1u << slot); }

std::uint32_t slots_of(const Program& program, const Slots& slots, graph::EndpointId endpoint) {
  std::uint32_t bits = 0;
  for (LocalTask task : program.endpoint_tasks[endpoint.index()])
    bits |= slot_bit(slots.of_lane[static_cast<std::size_t>(program.lane[task.index()])]);
  return bits;
}

Slots fill_steps(const Program& program, std::span<Step> steps) {
  Slots slots;
  constexpr std::uint8_t kUnknown = 0xff;
  for (const graph::LaneInfo& lane : graph::kLaneTable)
    slots.of_lane[static_cast<std::size_t>(lane.lane)] =
        is_send(lane.lane)     ? static_cast<std::uint8_t>(kFirstWire + graph::wire_of(lane.lane))
        : is_serial(lane.lane) ? kUnknown
                               : kReceives;
  std::array<std::uint32_t, kFirstSerial + graph::kLanes> latest;
  latest.fill(kNone);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Lane lane = program.lane[i];
    std::uint8_t& slot = slots.of_lane[static_cast<std::size_t>(lane)];
    if (slot == kUnknown) slot = static_cast<std::uint8_t>(slots.first.size()), slots.first.push_back(kNone);
    Step& step = steps[i];
    step.work = program.work[i].value;
    step.endpoint = program.endpoint[i];
    step.sequence = program.sequence[i];
    step.slot = slot;
    step.kind = kind_of(program, i);
    // An earlier task of the same serial lane has ended anyway when this one starts.
    for (LocalTask before : program.dependencies[i]) {
      if (program.lane[before.index()] == lane && is_serial(slot)) continue;
      step.dependency = step.dependency == kNone ? before.value : kMany;
      steps[before.index()].awaited_on |= slot_bit(slot);
    }
    std::uint32_t& previous = latest[slot];
    (previous == kNone ? slots.first[slot] : steps[previous].next) = static_cast<std::uint32_t>(i);
    previous = static_cast<std::uint32_t>(i);
  }
  return slots;
}

}  // namespace

Prepared::Prepared(const graph::TaskGraph& graph) : graph_(graph) {
  std::vector<std::size_t> first_step;
  std::size_t total = 0;
  for (const Program& program : graph.programs()) {
    INVARIANT(program.size() < kMaxCount, "program too long");
    first_step.push_back(total);
    total += program.size();
  }
  steps_.resize(total);
  auto steps = [&](std::size_t p) { return std::span(steps_).subspan(first_step[p], graph.programs()[p].size()); };
  for (std::size_t p = 0; p < graph.programs().size(); ++p) {
    slots_of_.push_back(fill_steps(graph.programs()[p], steps(p)));
    slots_ = std::max(slots_, slots_of_.back().first.size());
  }

  std::vector<std::uint64_t> first_round;
  for (const graph::Group& group : graph.groups()) {
    first_round.push_back(rounds_);
    rounds_ += graph.uses(group);
  }

  // The first endpoint of each rank, and the channel number of every send.
  std::vector<std::size_t> first_end;
  std::vector<std::uint64_t> channel;
  for (const graph::Rank& rank : graph.ranks()) {
    first_end.push_back(channel.size());
    for (EndpointKind kind : graph.program_of(rank).endpoints)
      channel.push_back(kind == EndpointKind::send ? channels_++ : 0);
  }
  INVARIANT(channels_ < kMaxCount, "too many channels");
  ends_.reserve(channel.size());  // spans below point into it
  const auto receiving_slots = [&](const graph::Attachment& to) {
    const graph::Rank& peer = graph.ranks()[to.peer.index()];
    return slots_of(graph.program_of(peer), slots_of_[peer.program.index()], to.peer_endpoint);
  };
  for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
    const graph::Rank& rank = graph.ranks()[r];
    const Program& program = graph.program_of(rank);
    for (std::size_t e = 0; e < rank.attachments.size(); ++e) {
      const graph::Attachment& to = rank.attachments[e];
      switch (program.endpoints[e]) {
        case EndpointKind::send:
          ends_.push_back({to.peer.value, receiving_slots(to), channel[first_end[r] + e]});
          break;
        case EndpointKind::receive:
          ends_.push_back({to.peer.value, 0, channel[first_end[to.peer.index()] + to.peer_endpoint.index()]});
          break;
        case EndpointKind::group:
          ends_.push_back({to.group.value, 0, first_round[to.group.index()]});
          break;
      }
    }
    ranks_.push_back({&program, steps(rank.program.index()),
                      std::span(ends_).subspan(first_end[r], rank.attachments.size()), rank.first_task,
                      slots_of_[rank.program.index()].first});
  }
}

}  // namespace rehearsal::engine
