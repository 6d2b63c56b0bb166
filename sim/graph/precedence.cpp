#include "graph/precedence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/error.hpp"

namespace rehearsal::graph {
namespace {

// The task that stands for `local`: itself, or the first member's task of the same group use.
TaskId representative(const TaskGraph& graph, RankId rank, LocalTask local) {
  const auto meeting = graph.meeting(rank, local);
  if (!meeting) return graph.task(rank, local);
  const auto [first, task] = (*meeting)[0];
  return graph.task(first, task);
}

}  // namespace

Precedence::Precedence(const TaskGraph& graph) : graph_(graph) {
  INVARIANT(graph.tasks() < UINT32_MAX, "too many tasks for a whole-graph check");
  std::vector<Vertex> vertex(graph.tasks());
  auto each_task = [&graph](auto&& visit) {
    for (std::size_t r = 0; r < graph.ranks().size(); ++r)
      for (std::size_t i = 0; i < graph.program_of(graph.ranks()[r]).size(); ++i) visit(RankId(r), LocalTask(i));
  };
  each_task([&](RankId rank, LocalTask local) {
    const TaskId task = graph.task(rank, local);
    if (representative(graph, rank, local) != task) return;
    vertex[task.index()] = static_cast<Vertex>(tasks_.size());
    tasks_.push_back(task);
  });
  each_task([&](RankId rank, LocalTask local) {
    vertex[graph.task(rank, local).index()] = vertex[representative(graph, rank, local).index()];
  });

  auto each_edge = [&](auto&& visit) {
    for (std::size_t r = 0; r < graph.ranks().size(); ++r) {
      const Rank& rank = graph.ranks()[r];
      const Program& program = graph.program_of(rank);
      const Vertex* mine = vertex.data() + rank.first_task;
      std::array<std::size_t, kLanes> last{};  // position + 1 of the latest task of each lane
      for (std::size_t i = 0; i < program.size(); ++i) {
        for (LocalTask before : program.dependencies[i]) visit(mine[before.index()], mine[i]);
        std::size_t& previous = last[static_cast<std::size_t>(program.lane[i])];
        if (previous > 0) visit(mine[previous - 1], mine[i]);
        previous = i + 1;
        if (program.endpoint[i] != kNoEndpoint && program.endpoints[program.endpoint[i]] == EndpointKind::receive)
          visit(vertex[graph.partner(RankId(r), LocalTask(i)).index()], mine[i]);
      }
    }
  };
  offsets_.assign(tasks_.size() + 1, 0);
  each_edge([this](Vertex from, Vertex) { ++offsets_[from + 1]; });
  for (std::size_t v = 1; v < offsets_.size(); ++v) offsets_[v] += offsets_[v - 1];
  targets_.resize(offsets_.back());
  std::vector<std::uint64_t> next(offsets_.begin(), offsets_.end() - 1);
  each_edge([this, &next](Vertex from, Vertex to) { targets_[next[from]++] = to; });
}

std::string Precedence::label(Vertex v) const {
  const TaskId task = tasks_[v];
  const RankId rank = graph_.rank_of(task);
  const LocalTask local = graph_.local(task);
  const std::string what = graph_.label(rank, local);
  const auto meeting = graph_.meeting(rank, local);
  if (!meeting) return fmt::format("rank {}: {}", rank.value, what);
  std::vector<std::uint32_t> ranks;
  for (const auto& [member, own] : *meeting) ranks.push_back(member.value);
  return fmt::format("{}[{}] of ranks {}: {}", name(meeting->group().axes), meeting->use(), fmt::join(ranks, ", "),
                     what);
}

}  // namespace rehearsal::graph
