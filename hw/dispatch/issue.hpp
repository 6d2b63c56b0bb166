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

}  // namespace rehearsal::dispatch
