#include "schedule/stage_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace rehearsal::schedule {

StageGraph::StageGraph(const Schedule& schedule, const Problem& problem) {
  const auto placement = schedule.placement;
  const auto stages = problem.stages();
  auto edges = problem.edges;
  if (edges.empty() && placement == Placement::vocabulary) edges = vocabulary_edges(problem, !schedule.splits_backward);
  // With input gradients behind the logits at once, no gradient of a part waits for others.
  if (schedule.splits_backward) std::erase_if(edges, [](const Edge& edge) { return edge.turns; });
  chain_ = edges.empty();
  if (chain_)
    for (std::uint32_t s = 0; s + 1 < stages; ++s) {
      if (last_of_chain(placement, problem, s)) continue;
      const bool holds = !problem.held.empty();
      edges.push_back(
          {s, s + 1, problem.transfer[s], holds ? problem.held[s] : Time(), holds ? problem.wire[s] : std::uint8_t{0}});
    }
  const auto sorted = [&](bool turns, auto key, std::vector<Edge>& to, std::vector<std::uint32_t>& first,
                          std::uint32_t Edge::*end) {
    for (const auto& edge : edges)
      if (edge.turns == turns) to.push_back(edge);
    std::sort(to.begin(), to.end(), [&](const Edge& a, const Edge& b) { return key(a) < key(b); });
    first.assign(stages + 1, 0);
    for (const auto& edge : to) ++first[edge.*end + 1];
    for (std::uint32_t s = 0; s < stages; ++s) first[s + 1] += first[s];
  };
  const auto by_end = [](const Edge& e) { return std::tuple(e.to, e.from); };
  const auto by_start = [](const Edge& e) { return std::tuple(e.from, e.to); };
  sorted(false, by_end, into_, into_first_, &Edge::to), sorted(false, by_start, out_, out_first_, &Edge::from);
  sorted(true, by_end, turned_in_, turned_in_first_, &Edge::to);
  sorted(true, by_start, turned_out_, turned_out_first_, &Edge::from);
}

std::optional<std::string> no_chain(const Problem& problem) {
  if (problem.edges.empty()) return std::nullopt;
  std::vector<bool> feeds_next(problem.stages());
  for (const auto& edge : problem.edges) {
    if (edge.turns)
      return fmt::format("the gradient of stage {} waits for the forward of stage {}", edge.to, edge.from);
    if (edge.to == edge.from + 1)
      feeds_next[edge.from] = true;
    else
      return fmt::format("stage {} also feeds stage {}", edge.from, edge.to);
  }
  for (std::uint32_t s = 0; s + 1 < problem.stages(); ++s)
    if (!feeds_next[s]) return fmt::format("stage {} does not feed stage {}", s, s + 1);
  return std::nullopt;
}

}  // namespace rehearsal::schedule
