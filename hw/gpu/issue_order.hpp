// The order in which one host thread queues the work of the ranks that it serves.
//
// Streams of a GPU wait for each other through events, and an event must be recorded before a wait for it is queued. So
// a task is queued after everything that it depends on: its rank's own dependencies; the send of the message that it
// receives, if this thread queues that too; for a collective, the readiness of all members served here, which are
// queued together. Of the ready tasks the one that starts first in the simulation is next: so the host does not queue
// late work before early work.
#pragma once
#include <span>
#include <vector>

#include "base/csr.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::gpu {

struct TaskOfRank {
  RankId rank;
  LocalTask task;
};

// A row is queued together: one task, or the members of a collective. `served`: the ranks of this thread. `starts`:
// simulated starts by TaskId; empty: by id. Throws MachineError when the graph has no such order.
Csr<TaskOfRank> issue_order(const graph::TaskGraph& graph, std::span<const RankId> served,
                            std::span<const Time> starts);

}  // namespace rehearsal::gpu
