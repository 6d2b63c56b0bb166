// Sizes of messages and collectives, for graphs with buffers and for those that are only timed.
#pragma once
#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

// Size of a send, or of the send matched by a receive. Works without a size (abstract scenarios) send one byte, so that
// the other end still sees them.
Bytes message_size(const graph::TaskGraph& graph, RankId rank, LocalTask message);

// Bytes in and out per member of a collective in timed compute, by NCCL's rule whole = part x members. At least one
// element, because the ranks must still meet.
struct Lengths {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Precision precision = Precision::fp32;
  std::size_t in = sizeof(float), out = sizeof(float);
};
Lengths timed_lengths(const graph::TaskGraph& graph, RankId rank, LocalTask task);

}  // namespace rehearsal::dispatch
