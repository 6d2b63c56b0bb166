// Whether a graph can be performed without message buffering: with rendezvous, as NCCL and MPI do above some size.
#pragma once
#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

// Runs through the graph without times. Every directed channel is a stream of its own: its receives are posted in
// order, and a send waits for its receive; a send on a serial lane blocks that lane. When this stalls, throws
// MachineError with the heads and what they wait for.
void check_zero_buffer(const graph::TaskGraph& graph);

// The least number of message slots per channel, on either side, with which a graph with staging_copies can be
// performed although messages wait for their receive: the sender copies out into a slot and continues, the receiver
// copies in from one. The same for all channels; 1 for graphs without staging_copies. Requires that check_zero_buffer()
// passes.
std::size_t message_depth(const graph::TaskGraph& graph);

}  // namespace rehearsal::dispatch
