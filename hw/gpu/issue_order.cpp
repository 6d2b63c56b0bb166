#include "gpu/issue_order.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/error.hpp"
#include "dispatch/issue.hpp"
#include "dispatch/watchdog.hpp"

namespace rehearsal::gpu {
namespace {

using graph::EndpointKind;

class Order {
 public:
  Order(const graph::TaskGraph& graph, std::span<const RankId> served, std::span<const Time> starts)
      : graph_(graph), starts_(starts), state_of_(graph.ranks().size(), kElsewhere) {
    for (const RankId rank : served) {
      state_of_[rank.index()] = ranks_.size();
      ranks_.emplace_back(rank, graph.program_of(graph.ranks()[rank.index()]));
    }
    for (State& state : ranks_) {
      left_ += state.program->size();
      for (std::size_t q = 0; q < state.next.size(); ++q) offer(state, q);
    }
  }

  Csr<TaskOfRank> find() {
    Csr<TaskOfRank> order;
    std::vector<TaskOfRank> row;
    while (!possible_.empty()) {
      const TaskOfRank task = std::get<2>(possible_.top());
      possible_.pop();
      row = members(*state(task.rank), task.task);
      for (const TaskOfRank& one : row) pass(one);
      order.push_row(row);
    }
    if (left_ > 0) throw MachineError("no order in which one thread could issue this graph: " + standing());
    return order;
  }

 private:
  static constexpr std::size_t kElsewhere = static_cast<std::size_t>(-1);
  struct State {
    State(RankId r, const graph::Program& p)
        : rank(r),
          program(&p),
          queues(dispatch::queues(p)),
          next(queues.queues.size()),
          offered(p.size()),
          passed(p.size()),
          waits(p.size()),
          followers(p.size()) {
      for (std::size_t i = 0; i < p.size(); ++i)
        for (const LocalTask before : p.dependencies[i]) {
          ++waits[i];
          followers[before.index()].push_back(LocalTask(i));
        }
    }
    RankId rank;
    const graph::Program* program;
    dispatch::Queues queues;
    std::vector<std::size_t> next;     // head of each queue
    std::vector<char> offered;         // whether the head is, or was, a candidate
    std::vector<char> passed;          // queued
    std::vector<std::uint32_t> waits;  // dependencies not queued yet
    std::vector<std::vector<LocalTask>> followers;
  };

  State* state(RankId rank) {
    const std::size_t at = state_of_[rank.index()];
    return at == kElsewhere ? nullptr : &ranks_[at];
  }
  bool is_head(const State& state, LocalTask task) const {
    const std::size_t q = state.queues.of[task.index()];
    return state.next[q] < state.queues.queues[q].tasks.size() && state.queues.queues[q].tasks[state.next[q]] == task;
  }
  bool free(const State& state, LocalTask task) const { return is_head(state, task) && state.waits[task.index()] == 0; }

  // Members of the same use of a group that are served here; the task alone when it is no collective.
  std::vector<TaskOfRank> members(const State& state, LocalTask task) {
    const auto meeting = graph_.meeting(state.rank, task);
    if (!meeting) return {{state.rank, task}};
    std::vector<TaskOfRank> result;
    for (const auto [rank, theirs] : *meeting)
      if (this->state(rank)) result.push_back({rank, theirs});
    return result;
  }

  // Makes the head of a queue a candidate once it is ready.
  void offer(State& mine, std::size_t queue) {
    const auto& tasks = mine.queues.queues[queue].tasks;
    if (mine.next[queue] == tasks.size()) return;
    const LocalTask task = tasks[mine.next[queue]];
    if (mine.waits[task.index()] > 0 || mine.offered[task.index()]) return;
    const std::uint32_t endpoint = mine.program->endpoint[task.index()];
    if (endpoint != graph::kNoEndpoint && mine.program->endpoints[endpoint] == EndpointKind::receive) {
      const TaskId send = graph_.partner(mine.rank, task);
      const State* sender = state(graph_.rank_of(send));
      if (sender && !sender->passed[graph_.local(send).index()]) return;
    }
    // The last member to become ready makes the whole collective a candidate.
    std::uint64_t start = 0;
    const auto together = members(mine, task);
    for (const TaskOfRank& member : together) {
      if (!free(*state(member.rank), member.task)) return;
      if (!starts_.empty())
        start = std::max(start, static_cast<std::uint64_t>(std::max<std::int64_t>(
                                    starts_[graph_.task(member.rank, member.task).index()].count(), 0)));
    }
    for (const TaskOfRank& member : together) state(member.rank)->offered[member.task.index()] = 1;
    possible_.emplace(start, graph_.task(mine.rank, task).value, TaskOfRank{mine.rank, task});
  }

  void pass(const TaskOfRank& task) {
    State& mine = *state(task.rank);
    const std::size_t queue = mine.queues.of[task.task.index()];
    mine.passed[task.task.index()] = 1;
    ++mine.next[queue];
    --left_;
    offer(mine, queue);
    for (const LocalTask follower : mine.followers[task.task.index()])
      if (--mine.waits[follower.index()] == 0 && is_head(mine, follower)) offer(mine, mine.queues.of[follower.index()]);
    const std::uint32_t endpoint = mine.program->endpoint[task.task.index()];
    if (endpoint == graph::kNoEndpoint || mine.program->endpoints[endpoint] != EndpointKind::send) return;
    const TaskId receive = graph_.partner(task.rank, task.task);
    if (State* theirs = state(graph_.rank_of(receive)))
      offer(*theirs, theirs->queues.of[graph_.local(receive).index()]);
  }

  std::string standing() const {
    std::vector<dispatch::Positions> positions(graph_.ranks().size());
    for (const State& state : ranks_)
      for (const auto& list : dispatch::issue_lists(*state.program)) {
        const auto stuck = std::ranges::find_if(list.tasks, [&](LocalTask t) { return !state.passed[t.index()]; });
        positions[state.rank.index()].push_back(static_cast<std::uint32_t>(stuck - list.tasks.begin()));
      }
    return dispatch::hang_report(graph_, positions);
  }

  struct Later {
    bool operator()(const auto& a, const auto& b) const {
      return std::tie(std::get<0>(a), std::get<1>(a)) > std::tie(std::get<0>(b), std::get<1>(b));
    }
  };
  using Possible = std::tuple<std::uint64_t, std::uint64_t, TaskOfRank>;  // start, TaskId

  const graph::TaskGraph& graph_;
  std::span<const Time> starts_;
  std::vector<State> ranks_;
  std::vector<std::size_t> state_of_;
  std::priority_queue<Possible, std::vector<Possible>, Later> possible_;
  std::size_t left_ = 0;
};

}  // namespace

Csr<TaskOfRank> issue_order(const graph::TaskGraph& graph, std::span<const RankId> served,
                            std::span<const Time> starts) {
  return Order(graph, served, starts).find();
}

}  // namespace rehearsal::gpu
