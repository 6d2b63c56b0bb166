// Sizes of messages and collectives, for graphs with buffers and for those that are only timed.
#pragma once
#include "backend/backend.hpp"
#include "dispatch/operands.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

// Size of a send, or of the send matched by a receive. Works without a size (abstract scenarios) send one byte, so that
// the other end still sees them.
Bytes message_size(const graph::TaskGraph& graph, RankId rank, LocalTask message);

// Bytes in and out per member of a collective in timed compute, by NCCL's rule whole = part x members, and the elements
// of a part (of the whole where there are none). At least one element, because the ranks must still meet.
struct Lengths {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Precision precision = Precision::fp32;
  std::size_t in = sizeof(float), out = sizeof(float);
  std::int64_t part = 1;
  Blocks blocks = {};  // of tokens on their way to experts that are not equally busy
};
Lengths timed_lengths(const graph::TaskGraph& graph, RankId rank, LocalTask task);

// Whether collectives are performed by their steps where an algorithm is known.
bool by_steps(const backend::RunOptions& options);
// The algorithm whose steps a collective sends, the same for all members; null: the transport's library performs it.
const collective::Execution* execution(const graph::TaskGraph& graph, const backend::RunOptions& options, RankId rank,
                                       LocalTask task);

}  // namespace rehearsal::dispatch
