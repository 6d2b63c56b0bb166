// In which order one host thread queues the work of the ranks that it serves.
//
// A GPU executes what is queued on its streams; streams wait for each other through events, and an event must have been
// recorded before somebody is told to wait for it. So a task is queued after everything that it depends on: its own
// rank's dependencies, the send of the message that it receives when that is queued here too, and the joining of all
// members of a collective that are served here, which are queued together. Among what is possible, the task that the
// simulation starts first: then the host is never ahead with what is needed late.
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

// Rows: what is queued together, one task or the members of a collective. `served`: the ranks of this thread.
// `starts` by TaskId, or empty: by id. Throws MachineError when the graph has no such order.
Csr<TaskOfRank> issue_order(const graph::TaskGraph& graph, std::span<const RankId> served,
                            std::span<const Time> starts);

}  // namespace rehearsal::gpu
