// Whether a graph can be performed when nobody buffers messages: with rendezvous, as NCCL and MPI do above some size.
#pragma once
#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

// Runs through the graph without times. Every directed channel is a stream of its own: its receives are posted one
// after the other, and a send waits for its receive; a send on a serial lane keeps that lane waiting. Throws
// MachineError with the heads and what they wait for when that stalls.
void check_zero_buffer(const graph::TaskGraph& graph);

// How many messages of a channel must have a place on either side so that a graph with staging_copies (its sender copies out
// into such a place and goes on, its receiver copies in from one) can be performed although messages themselves wait
// for their receive: the least number, the same for all channels; 1 for graphs without staging_copies. check_zero_buffer()
// holds.
std::size_t message_depth(const graph::TaskGraph& graph);

}  // namespace rehearsal::dispatch
