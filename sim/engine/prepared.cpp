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

constexpr std::uint8_t lane_bit(Lane lane) { return static_cast<std::uint8_t>(1u << static_cast<unsigned>(lane)); }

std::uint32_t lanes_of(const Program& program, graph::EndpointId endpoint) {
  std::uint32_t lanes = 0;
  for (LocalTask task : program.endpoint_tasks[endpoint.index()]) lanes |= lane_bit(program.lane[task.index()]);
  return lanes;
}

void fill_steps(const Program& program, std::span<Step> steps) {
  std::array<std::uint32_t, graph::kLanes> latest;
  latest.fill(kNone);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps[i];
    step.work = program.work[i].value;
    step.endpoint = program.endpoint[i];
    step.sequence = program.sequence[i];
    step.lane = program.lane[i];
    step.kind = kind_of(program, i);
    // An earlier task of the same serial lane has ended anyway when this one starts.
    for (LocalTask before : program.dependencies[i]) {
      if (program.lane[before.index()] == step.lane && is_serial(step.lane)) continue;
      step.waits = step.waits == Waits::none ? Waits::one : Waits::many;
      step.dependency = before.value;
      steps[before.index()].awaited_on |= lane_bit(step.lane);
    }
    std::uint32_t& previous = latest[static_cast<std::size_t>(step.lane)];
    if (previous != kNone) steps[previous].next = static_cast<std::uint32_t>(i);
    previous = static_cast<std::uint32_t>(i);
  }
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
  for (std::size_t p = 0; p < graph.programs().size(); ++p) fill_steps(graph.programs()[p], steps(p));

  std::vector<std::uint64_t> first_round;
  for (const graph::Group& group : graph.groups()) {
    first_round.push_back(rounds_);
    rounds_ += graph.uses(group);
  }

  // Where the ends of each rank begin, and the number of the channel of every send.
  std::vector<std::size_t> first_end;
  std::vector<std::uint64_t> channel;
  for (const graph::Rank& rank : graph.ranks()) {
    first_end.push_back(channel.size());
    for (EndpointKind kind : graph.program_of(rank).endpoints)
      channel.push_back(kind == EndpointKind::send ? channels_++ : 0);
  }
  INVARIANT(channels_ < kMaxCount, "too many channels");
  ends_.reserve(channel.size());  // spans below point into it
  for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
    const graph::Rank& rank = graph.ranks()[r];
    const Program& program = graph.program_of(rank);
    for (std::size_t e = 0; e < rank.attachments.size(); ++e) {
      const graph::Attachment& to = rank.attachments[e];
      switch (program.endpoints[e]) {
        case EndpointKind::send:
          ends_.push_back({to.peer.value, lanes_of(graph.program_of(graph.ranks()[to.peer.index()]), to.peer_endpoint),
                           channel[first_end[r] + e]});
          break;
        case EndpointKind::receive:
          ends_.push_back({to.peer.value, 0, channel[first_end[to.peer.index()] + to.peer_endpoint.index()]});
          break;
        case EndpointKind::group:
          ends_.push_back({to.group.value, 0, first_round[to.group.index()]});
          break;
      }
    }
    RankView view{&program,
                  steps(rank.program.index()),
                  std::span(ends_).subspan(first_end[r], rank.attachments.size()),
                  rank.first_task,
                  {}};
    for (std::size_t lane = 0; lane < graph::kLanes; ++lane) {
      const auto at = std::find(program.lane.begin(), program.lane.end(), static_cast<Lane>(lane));
      view.first_of_lane[lane] =
          at == program.lane.end() ? kNone : static_cast<std::uint32_t>(at - program.lane.begin());
    }
    ranks_.push_back(view);
  }
}

}  // namespace rehearsal::engine
