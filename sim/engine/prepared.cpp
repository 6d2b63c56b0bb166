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

std::vector<Step> steps_of(const Program& program) {
  std::vector<Step> steps(program.size());
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
    }
    std::uint32_t& previous = latest[static_cast<std::size_t>(step.lane)];
    if (previous != kNone) steps[previous].next = static_cast<std::uint32_t>(i);
    previous = static_cast<std::uint32_t>(i);
  }
  return steps;
}

}  // namespace

Prepared::Prepared(const graph::TaskGraph& graph) : graph_(graph) {
  for (const Program& program : graph.programs()) {
    INVARIANT(program.size() < kNone, "program too long");
    steps_.push_back(steps_of(program));
  }
  std::vector<std::uint64_t> first_round;
  for (const graph::Group& group : graph.groups()) {
    first_round.push_back(rounds_);
    if (group.members.empty()) continue;
    const graph::GroupMember& first = group.members.front();
    rounds_ += graph.program_of(graph.ranks()[first.rank.index()]).endpoint_tasks[first.endpoint.index()].size();
  }

  std::size_t endpoints = 0;
  for (const graph::Rank& rank : graph.ranks()) endpoints += rank.attachments.size();
  ends_.reserve(endpoints);  // spans below point into it
  for (const graph::Rank& rank : graph.ranks()) {
    const Program& program = graph.program_of(rank);
    const std::size_t first_end = ends_.size();
    for (std::size_t e = 0; e < rank.attachments.size(); ++e) {
      const graph::Attachment& to = rank.attachments[e];
      if (program.endpoints[e] == EndpointKind::group) {
        ends_.push_back({first_round[to.group.index()], nullptr, to.group.value});
      } else {
        const graph::Rank& peer = graph.ranks()[to.peer.index()];
        ends_.push_back(
            {peer.first_task, graph.program_of(peer).endpoint_tasks[to.peer_endpoint.index()].data(), to.peer.value});
      }
    }
    RankView view{&program,
                  steps_[rank.program.index()],
                  std::span(ends_).subspan(first_end, rank.attachments.size()),
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
