// Parameter servers of native kernels (sim/design/parameter-servers.md): what a worker sends and receives at the end of
// an iteration, and the programs of servers. Every segment is split evenly over all servers; the part of each is one
// message, sent from and received into its place in the worker's flat arrays.
//
// Program order alone lets workers run ahead: a worker receives the result of an iteration `delay` iterations after it
// has sent its own gradients of it; messages not yet received stay in the transport. So a worker has one set of
// parameters and of gradients whatever the delay, and a server one sum.
#pragma once
#include "lower/step_emitter.hpp"

namespace rehearsal::lower {

// The program of a server: for each iteration and segment it sums what `workers` push, in the order of their turns,
// updates its part if servers run the optimizer, and sends the result. `worker`: the program of one, which says what is
// pushed.
LoweredRank network_server(const plan::Plan& plan, const graph::Program& worker, std::uint32_t workers,
                           graph::GraphBuilder& works);

// A worker's staging copies are written as if server s had turn s; this corrects them. `servers`: the server of each
// turn.
graph::Work handed_over(const graph::Work& work, const std::vector<std::uint32_t>& servers);

}  // namespace rehearsal::lower
