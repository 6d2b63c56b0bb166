// Who issues what in which order: the lanes in use, each with its tasks in id order. Hardware issues in this order and
// nothing else, so it meets the channels and groups exactly as the simulator does.
#pragma once
#include <vector>

#include "graph/task_graph.hpp"

namespace rehearsal::dispatch {

struct IssueList {
  graph::Lane lane = graph::Lane::compute;
  std::vector<LocalTask> tasks;
};

// Of one program, lane by lane; lanes without tasks are left out.
std::vector<IssueList> issue_lists(const graph::Program& program);

// The same tasks as queues that know of each other through dependencies alone, as the streams of a GPU do: a serial
// lane is one, and so is each endpoint of the lanes of messages. Messages of different channels do not wait for each
// other then.
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
