#include "timeline/waiting.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace rehearsal::timeline {
namespace {

class Waits {
 public:
  Waits(const graph::TaskGraph& graph, const Timeline& timeline)
      : graph_(graph), timeline_(timeline), ready_(graph.tasks()) {}

  std::vector<Waiting> run() {
    for (std::size_t r = 0; r < graph_.ranks().size(); ++r) find_ready(RankId(r));
    for (std::size_t r = 0; r < graph_.ranks().size(); ++r) look_at_messages(RankId(r));
    for (std::size_t g = 0; g < graph_.groups().size(); ++g) look_at_meetings(GroupId(g));
    std::vector<Waiting> all;
    for (const auto& [key, time] : sums_)
      all.push_back({RankId(std::get<0>(key)), RankId(std::get<1>(key)), axes_.at(std::get<2>(key)), time});
    return all;
  }

 private:
  void add(RankId rank, RankId awaited, Axes axes, Time time) {
    if (time <= Time{} || rank == awaited) return;
    axes_.try_emplace(axes.bits(), axes);
    sums_[{rank.value, awaited.value, axes.bits()}] += time;
  }

  // When a task could have started if only its own rank counted.
  void find_ready(RankId rank) {
    const auto& mine = graph_.ranks()[rank.index()];
    const auto& program = graph_.program_of(mine);
    std::array<Time, graph::kLanes> free{};
    for (std::size_t i = 0; i < program.size(); ++i) {
      const auto at = mine.first_task + i;
      const auto lane = static_cast<std::size_t>(program.lane[i]);
      Time ready = graph::is_serial(program.lane[i]) ? free[lane] : Time{};
      for (const LocalTask before : program.dependencies[i])
        ready = std::max(ready, timeline_.end[mine.first_task + before.index()]);
      ready_[at] = ready;
      free[lane] = std::max(free[lane], timeline_.end[at]);
    }
  }

  void look_at_messages(RankId rank) {
    const auto& mine = graph_.ranks()[rank.index()];
    const auto& program = graph_.program_of(mine);
    Time free;
    for (std::size_t i = 0; i < program.size(); ++i) {
      if (program.lane[i] != graph::Lane::compute) continue;
      Time others = free;
      std::optional<LocalTask> received;
      for (const LocalTask before : program.dependencies[i]) {
        const auto endpoint = program.endpoint[before.index()];
        const bool message =
            endpoint != graph::kNoEndpoint && program.endpoints[endpoint] == graph::EndpointKind::receive;
        if (message)
          received = before;
        else
          others = std::max(others, timeline_.end[mine.first_task + before.index()]);
      }
      if (received)
        add(rank, graph_.rank_of(graph_.partner(rank, *received)), Axis::pipeline,
            timeline_.end[mine.first_task + received->index()] - others);
      free = timeline_.end[mine.first_task + i];
    }
  }

  void look_at_meetings(GroupId group) {
    const auto& its = graph_.groups()[group.index()];
    for (std::uint32_t use = 0; use < graph_.uses(its); ++use) {
      const auto meeting = graph_.meeting(group, use);
      const auto ready = [&](graph::Participant p) { return ready_[graph_.task(p.rank, p.task).index()]; };
      graph::Participant last = meeting[0];
      for (const auto member : meeting)
        if (ready(member) > ready(last)) last = member;
      for (const auto member : meeting) add(member.rank, last.rank, its.axes, ready(last) - ready(member));
    }
  }

  const graph::TaskGraph& graph_;
  const Timeline& timeline_;
  std::vector<Time> ready_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint16_t>, Time> sums_;
  std::map<std::uint16_t, Axes> axes_;
};

}  // namespace

std::vector<Waiting> waiting(const graph::TaskGraph& graph, const Timeline& timeline) {
  return Waits(graph, timeline).run();
}

}  // namespace rehearsal::timeline
