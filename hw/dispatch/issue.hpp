// Issue order: the lanes in use, each with its tasks in id order. Hardware issues in exactly this order, so it matches
// channels and groups exactly as the simulator does.
#pragma once
#include <vector>

#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

struct IssueList {
  graph::Lane lane = graph::Lane::compute;
  std::vector<LocalTask> tasks;
};

// The lanes of one program, in order; lanes without tasks are left out.
std::vector<IssueList> issue_lists(const graph::Program& program);

// The same tasks as queues that synchronise through dependencies only, as the streams of a GPU do: one per serial lane,
// and one per endpoint of a message lane, so that messages of different channels do not wait for each other.
struct Queue {
  graph::Lane lane = graph::Lane::compute;
  std::vector<LocalTask> tasks;  // ascending
};
struct Queues {
  std::vector<Queue> queues;
  std::vector<std::uint32_t> of;  // by LocalTask: index into `queues`
};
Queues queues(const graph::Program& program);

}  // namespace rehearsal::dispatch
