// How much travels with a message or in a collective, of graphs with buffers and of those that are only timed.
#pragma once
#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

// Of a send, or of the send whose message a receive gets. Works without a size (abstract scenarios) still need to be
// seen at the other end: one byte.
Bytes message_size(const graph::TaskGraph& graph, RankId rank, LocalTask message);

// Bytes that a member of a collective gives and gets when nothing is computed, with NCCL's rule whole = part x members.
// There is one element at least: the other ranks need to be met.
struct Lengths {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Precision precision = Precision::fp32;
  std::size_t in = sizeof(float), out = sizeof(float);
};
Lengths timed_lengths(const graph::TaskGraph& graph, RankId rank, LocalTask task);

}  // namespace rehearsal::dispatch
