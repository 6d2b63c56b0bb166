#include "dispatch/issue.hpp"

#include <array>

namespace rehearsal::dispatch {

std::vector<IssueList> issue_lists(const graph::TaskGraph& graph) {
  std::vector<IssueList> lists;
  for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
    const graph::Program& program = graph.program_of(graph.ranks()[r]);
    std::array<std::vector<LocalTask>, graph::kLanes> lanes;
    for (std::size_t i = 0; i < program.size(); ++i)
      lanes[static_cast<std::size_t>(program.lane[i])].push_back(LocalTask(i));
    for (std::size_t lane = 0; lane < graph::kLanes; ++lane)
      if (!lanes[lane].empty()) lists.push_back({RankId(r), static_cast<graph::Lane>(lane), std::move(lanes[lane])});
  }
  return lists;
}

}  // namespace rehearsal::dispatch
