// A chain of stages that the tests perform: rank r gets what rank r-1 computed, three times, then all reduce.
#pragma once
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal {

struct Chain {
  graph::TaskGraph graph;
  std::vector<Time> durations;
};

inline constexpr std::uint32_t kMicrobatches = 3;
inline const Time kForward = seconds(5e-3);
// Stage r starts its first forward when the one before has ended its first: r forwards, then its own ones back to back.
inline Time shortest(std::size_t ranks) { return static_cast<std::int64_t>(ranks - 1 + kMicrobatches) * kForward; }

inline Chain chain(std::size_t ranks, Bytes message = Bytes(1000)) {
  using graph::EndpointKind;
  using graph::Lane;
  using graph::Pass;
  graph::GraphBuilder builder;
  const WorkId forward = builder.intern(graph::FixedDelay{kForward});
  const WorkId send = builder.intern(graph::Message{.size = message, .gathered = {}});
  const WorkId receive = builder.intern(graph::Receive{});
  const WorkId reduce =
      builder.intern(graph::Collective{.size = Bytes(4096), .group = {.ranks = std::uint32_t(ranks)}});
  std::vector<graph::GroupMember> members;
  std::vector<graph::EndpointId> ins, outs;
  for (std::size_t r = 0; r < ranks; ++r) {
    graph::ProgramBuilder p("stage " + std::to_string(r));
    const auto in = r > 0 ? p.endpoint(EndpointKind::receive) : graph::EndpointId(graph::kNoEndpoint);
    const auto out = r + 1 < ranks ? p.endpoint(EndpointKind::send) : graph::EndpointId(graph::kNoEndpoint);
    const auto all = p.endpoint(EndpointKind::group);
    auto add = [&](WorkId work, Lane lane, Pass pass, std::uint32_t m, std::uint32_t endpoint,
                   std::vector<LocalTask> after) {
      return p.add({work, lane, {pass, std::uint16_t(r), graph::kNoLayer, m}, endpoint, {}}, after);
    };
    LocalTask last;
    for (std::uint32_t m = 0; m < kMicrobatches; ++m) {
      std::vector<LocalTask> after;
      if (r > 0) after = {add(receive, Lane::receive, Pass::forward, m, in.value, {})};
      last = add(forward, Lane::compute, Pass::forward, m, graph::kNoEndpoint, after);
      if (r + 1 < ranks) add(send, Lane::send, Pass::forward, m, out.value, {last});
    }
    add(reduce, Lane::data_comm, Pass::gradient_reduce, graph::kNoMicrobatch, all.value, {last});
    members.push_back({builder.add_rank(builder.add(std::move(p).finish()), 1, std::uint32_t(r)), all});
    ins.push_back(in), outs.push_back(out);
  }
  for (std::size_t r = 0; r + 1 < ranks; ++r) builder.connect(RankId(r), outs[r], RankId(r + 1), ins[r + 1]);
  builder.add_group(Axis::data, std::move(members));
  std::vector<Time> durations(builder.works().size());
  durations[forward.index()] = kForward;
  return {std::move(builder).finish(), durations};
}

}  // namespace rehearsal
