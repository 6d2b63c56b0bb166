#include "dispatch/issue.hpp"

#include <array>

namespace rehearsal::dispatch {

std::vector<IssueList> issue_lists(const graph::Program& program) {
  std::array<std::vector<LocalTask>, graph::kLanes> lanes;
  for (std::size_t i = 0; i < program.size(); ++i)
    lanes[static_cast<std::size_t>(program.lane[i])].push_back(LocalTask(i));
  std::vector<IssueList> lists;
  for (std::size_t lane = 0; lane < graph::kLanes; ++lane)
    if (!lanes[lane].empty()) lists.push_back({static_cast<graph::Lane>(lane), std::move(lanes[lane])});
  return lists;
}

}  // namespace rehearsal::dispatch
