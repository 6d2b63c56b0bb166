// Data parallelism by parameter servers (sim/design/parameter-servers.md): the programs of
// a framework's servers, and the graph of workers and servers. Gradients are sent bucket by bucket, each split evenly
// over all servers.
//
// A server that waits for all workers is one rank. An asynchronous one has a thread for each worker, each a rank, so
// that requests of one worker do not queue behind those that another has not sent yet.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "graph/builder.hpp"
#include "lower/lowering.hpp"
#include "lower/rank_program.hpp"
#include "plan/plan.hpp"

namespace rehearsal::lower {

// Bytes per parameter that are sent to servers and come back from them.
struct ServedBytes {
  double pushed, pulled;
};
ServedBytes served_bytes(const plan::Job& job);

// Bytes per parameter that a worker keeps between passes, and that a server keeps of its share: copies of parameters,
// of gradients, and the optimizer's states where the update runs.
plan::StateBytes worker_states(const plan::Job& job);
plan::StateBytes server_states(const plan::Job& job);

// Adds a rank for each worker, all with this program, and the ranks of the servers.
std::optional<ResourceMap> join_served(LoweredRank worker, const plan::Plan& plan, const Options& options,
                                       graph::GraphBuilder& builder);

}  // namespace rehearsal::lower
