#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "timeline/breakdown.hpp"

namespace rehearsal::timeline {
namespace {

using graph::EndpointKind;

constexpr std::uint32_t kNone = 0xffffffff;

class Walk {
 public:
  Walk(const graph::TaskGraph& graph, const Timeline& timeline) : graph_(graph), timeline_(timeline) {}

  std::vector<CriticalStep> run() {
    std::vector<CriticalStep> path;
    if (graph_.tasks() == 0) return path;
    const auto last = std::max_element(timeline_.end.begin(), timeline_.end.end());  // the first of equals
    std::optional<TaskId> at = TaskId(static_cast<std::size_t>(last - timeline_.end.begin()));
    while (at) {
      Time end = timeline_.end[at->index()];
      if (!path.empty() && sends(*at)) end = std::min(end, path.back().start);
      path.push_back({*at, timeline_.start[at->index()], end});
      at = decided_by(*at);
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  // The predecessor that ended last, which is when the task could start; the smallest id of equals. Nothing if the task
  // started at time 0 with nothing before it.
  std::optional<TaskId> decided_by(TaskId task) {
    best_.reset();
    const RankId rank = graph_.rank_of(task);
    const LocalTask local = graph_.local(task);
    if (const auto meeting = graph_.meeting(rank, local))
      for (const auto [member, theirs] : *meeting)  // the last ready member released all others
        consider_predecessors(member, theirs);
    else
      consider_predecessors(rank, local);
    return best_;
  }

 private:
  bool sends(TaskId task) const {
    const RankId rank = graph_.rank_of(task);
    return graph::is_send(graph_.program_of(graph_.ranks()[rank.index()]).lane[graph_.local(task).index()]);
  }

  void consider(TaskId task) {
    if (!best_ || timeline_.end[task.index()] > timeline_.end[best_->index()] ||
        (timeline_.end[task.index()] == timeline_.end[best_->index()] && task < *best_))
      best_ = task;
  }

  void consider_predecessors(RankId rank, LocalTask local) {
    const graph::Rank& mine = graph_.ranks()[rank.index()];
    const graph::Program& program = graph_.program_of(mine);
    const auto& previous = previous_on_lane(mine.program);
    const Time start = timeline_.start[graph_.task(rank, local).index()];
    // On a lane of messages a task may have waited for the start of the previous one: then that one's predecessors
    // count. A send that started later than all of these waited for the wire, which the previous message held.
    for (std::uint32_t i = local.value; i != kNone; i = previous[i]) {
      for (LocalTask before : program.dependencies[i]) consider(graph_.task(rank, before));
      const std::uint32_t endpoint = program.endpoint[i];
      if (endpoint != graph::kNoEndpoint && program.endpoints[endpoint] == EndpointKind::receive)
        consider(graph_.partner(rank, LocalTask(i)));
      if (previous[i] == kNone) return;
      if (is_serial(program.lane[i])) return consider(graph_.task(rank, LocalTask(previous[i])));
      if (best_ && timeline_.end[best_->index()] >= start) return;
      const TaskId ahead = graph_.task(rank, LocalTask(previous[i]));
      if (graph::is_send(program.lane[i]) && timeline_.start[ahead.index()] < start &&
          timeline_.end[ahead.index()] >= start) {
        best_ = ahead;
        return;
      }
    }
  }

  const std::vector<std::uint32_t>& previous_on_lane(ProgramId id) {
    auto [at, fresh] = previous_.try_emplace(id);
    if (fresh) {
      std::array<std::uint32_t, graph::kLanes> latest;
      latest.fill(kNone);
      const auto& lanes = graph_.programs()[id.index()].lane;
      for (std::uint32_t i = 0; i < lanes.size(); ++i)
        at->second.push_back(std::exchange(latest[static_cast<std::size_t>(lanes[i])], i));
    }
    return at->second;
  }

  const graph::TaskGraph& graph_;
  const Timeline& timeline_;
  std::map<ProgramId, std::vector<std::uint32_t>> previous_;
  std::optional<TaskId> best_;
};

}  // namespace

std::vector<CriticalStep> critical_path(const graph::TaskGraph& graph, const Timeline& timeline) {
  return Walk(graph, timeline).run();
}

std::vector<std::optional<TaskId>> awaited(const graph::TaskGraph& graph, const Timeline& timeline) {
  Walk walk(graph, timeline);
  std::vector<std::optional<TaskId>> all;
  all.reserve(graph.tasks());
  for (std::uint64_t t = 0; t < graph.tasks(); ++t) all.push_back(walk.decided_by(TaskId(t)));
  return all;
}

}  // namespace rehearsal::timeline
