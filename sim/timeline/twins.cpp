#include "timeline/twins.hpp"

#include <algorithm>

namespace rehearsal::timeline {

std::vector<RankId> identical_ranks(const graph::TaskGraph& graph, const Timeline& timeline) {
  // Measured ranks all differ: each is compared with at most this many others.
  constexpr std::size_t kMost = 8;
  std::vector<std::vector<RankId>> seen(graph.programs().size());
  std::vector<RankId> first;
  for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
    const graph::Rank& rank = graph.ranks()[r];
    const std::size_t n = graph.program_of(rank).size();
    const auto alike = [&](RankId other) {
      const std::size_t mine = rank.first_task, theirs = graph.ranks()[other.index()].first_task;
      const auto same = [&](const std::vector<Time>& at) {
        return std::equal(at.data() + mine, at.data() + mine + n, at.data() + theirs);
      };
      return same(timeline.start) && same(timeline.end);
    };
    auto& others = seen[rank.program.index()];
    const auto found = std::find_if(others.begin(), others.end(), alike);
    first.push_back(found == others.end() ? RankId(r) : *found);
    if (found == others.end() && others.size() < kMost) others.push_back(RankId(r));
  }
  return first;
}

}  // namespace rehearsal::timeline
