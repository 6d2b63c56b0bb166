#include "schedule/stage_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace rehearsal::schedule {

StageGraph::StageGraph(Placement placement, const Problem& problem) {
  const auto stages = problem.stages();
  auto edges = problem.edges;
  if (edges.empty())
    for (std::uint32_t s = 0; s + 1 < stages; ++s) {
      if (last_of_chain(placement, problem, s)) continue;
      const bool holds = !problem.held.empty();
      edges.push_back(
          {s, s + 1, problem.transfer[s], holds ? problem.held[s] : Time(), holds ? problem.wire[s] : std::uint8_t{0}});
    }
  const auto sorted = [&](auto key, std::vector<Edge>& to, std::vector<std::uint32_t>& first,
                          std::uint32_t Edge::*end) {
    std::sort(edges.begin(), edges.end(), [&](const Edge& a, const Edge& b) { return key(a) < key(b); });
    to = edges;
    first.assign(stages + 1, 0);
    for (const auto& edge : to) ++first[edge.*end + 1];
    for (std::uint32_t s = 0; s < stages; ++s) first[s + 1] += first[s];
  };
  sorted([](const Edge& e) { return std::tuple(e.to, e.from); }, into_, into_first_, &Edge::to);
  sorted([](const Edge& e) { return std::tuple(e.from, e.to); }, out_, out_first_, &Edge::from);
}

std::optional<std::string> no_chain(const Problem& problem) {
  if (problem.edges.empty()) return std::nullopt;
  std::vector<bool> feeds_next(problem.stages());
  for (const auto& edge : problem.edges) {
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
