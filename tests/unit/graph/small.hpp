// Small graphs for the tests of this room.
#pragma once
#include "graph/builder.hpp"

namespace rehearsal::graph {

inline Coordinates at(Pass pass, std::uint16_t stage, std::uint32_t microbatch) {
  return {pass, stage, kNoLayer, microbatch};
}

// Rank 0 computes and sends; rank 1 receives and computes. `messages` times.
inline TaskGraph ping(int messages, std::uint32_t multiplicity = 1) {
  GraphBuilder graph;
  const WorkId compute = graph.intern(FixedDelay{picoseconds(10)});
  const WorkId message = graph.intern(Message{.size = Bytes(8), .gathered = {}});
  const WorkId receive = graph.intern(Receive{});

  ProgramBuilder first("stage 0"), second("stage 1");
  const EndpointId out = first.endpoint(EndpointKind::send), in = second.endpoint(EndpointKind::receive);
  for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(messages); ++k) {
    const LocalTask made = first.add({compute, Lane::compute, at(Pass::forward, 0, k), kNoEndpoint, {}});
    first.add({message, Lane::send, at(Pass::forward, 0, k), out.value, {}}, std::vector{made});
    const LocalTask come = second.add({receive, Lane::receive, at(Pass::forward, 1, k), in.value, {}});
    second.add({compute, Lane::compute, at(Pass::forward, 1, k), kNoEndpoint, {}}, std::vector{come});
  }
  const ProgramId a = graph.add(std::move(first).finish()), b = graph.add(std::move(second).finish());
  const RankId ra = graph.add_rank(a, multiplicity), rb = graph.add_rank(b, multiplicity);
  graph.connect(ra, out, rb, in);
  return std::move(graph).finish();
}

}  // namespace rehearsal::graph
