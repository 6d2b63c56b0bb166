#include "dispatch/issue.hpp"

#include <array>
#include <cstdint>

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

Queues queues(const graph::Program& program) {
  constexpr std::uint32_t kNone = 0xffffffff;
  std::vector<std::uint32_t> of_lane(graph::kLanes, kNone), of_endpoint(program.endpoints.size(), kNone);
  Queues all;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const bool own = !graph::is_serial(program.lane[i]) && program.endpoint[i] != graph::kNoEndpoint;
    std::uint32_t& at = own ? of_endpoint[program.endpoint[i]] : of_lane[static_cast<std::size_t>(program.lane[i])];
    if (at == kNone) {
      at = static_cast<std::uint32_t>(all.queues.size());
      all.queues.push_back({program.lane[i], {}});
    }
    all.queues[at].tasks.push_back(LocalTask(i));
    all.of.push_back(at);
  }
  return all;
}

}  // namespace rehearsal::dispatch
