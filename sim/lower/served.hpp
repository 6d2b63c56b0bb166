// Data parallelism by parameter servers (sim/design/parameter-servers.md): what a worker pushes and pulls at the end of
// its backward, the programs of servers, and both joined into a graph. Gradients go out bucket by bucket, each cut
// evenly over all servers.
//
// A server that waits for all workers is one rank. One that waits for nobody has a thread for each worker, a rank of
// its own: what one worker sends is not served behind what another one has not sent yet.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "graph/builder.hpp"
#include "lower/lowering.hpp"
#include "lower/rank_program.hpp"
#include "lower/step_emitter.hpp"
#include "plan/plan.hpp"

namespace rehearsal::lower {

// Bytes per parameter of what goes to servers and comes back from them.
struct ServedBytes {
  double pushed, pulled;
};
ServedBytes served_bytes(const plan::Job& job);

// What a GPU keeps between passes as a worker, and what a server keeps of its share: copies of parameters, of
// gradients, and the optimizer's states where it updates.
plan::StateBytes worker_states(const plan::Job& job);
plan::StateBytes server_states(const plan::Job& job);

// A worker's side, in its program.
class ServedUpdate {
 public:
  explicit ServedUpdate(ProgramDraft& draft);
  // Gradients of so many parameters are complete when `after` has ended.
  void push(double parameters, const graph::Coordinates& at, LocalTask after);
  // What is pulled, in the order in which it was pushed. Returns the last task.
  LocalTask pull(graph::Coordinates at);

 private:
  ProgramDraft& draft_;
};

// A rank for each worker, whose program this is, and the ranks of the servers.
std::optional<ResourceMap> join_served(LoweredRank worker, const plan::Plan& plan, const Options& options,
                                        graph::GraphBuilder& builder);

}  // namespace rehearsal::lower
