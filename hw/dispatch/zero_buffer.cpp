#include "dispatch/zero_buffer.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "dispatch/issue.hpp"
#include "dispatch/performable.hpp"
#include "dispatch/watchdog.hpp"

namespace rehearsal::dispatch {
namespace {

using graph::EndpointKind;

class Rendezvous {
 public:
  // `depth`: message slots of a channel on either side; 0: unlimited.
  explicit Rendezvous(const graph::TaskGraph& graph, std::size_t depth = 0)
      : graph_(graph), queued_(graph.ranks().size(), 1) {
    for (const graph::Rank& rank : graph.ranks()) {
      ranks_.emplace_back(graph.program_of(rank));
      if (depth > 0) ranks_.back().place_after = places(graph, graph.program_of(rank), depth);
    }
    for (std::size_t r = ranks_.size(); r-- > 0;) queue_.push_back(RankId(r));
  }

  // True when everything could be performed.
  bool run() {
    while (!queue_.empty()) {
      const RankId rank = queue_.back();
      queue_.pop_back();
      queued_[rank.index()] = 0;
      while (advance(rank)) {
      }
    }
    return std::ranges::all_of(ranks_, [](const RankState& rank) { return rank.left == 0; });
  }

  // Per lane, the first task that could not be performed.
  std::vector<Positions> positions() const {
    std::vector<Positions> all;
    for (const RankState& rank : ranks_) {
      Positions& mine = all.emplace_back();
      for (const IssueList& list : issue_lists(*rank.program)) {
        const auto stuck = std::ranges::find_if(list.tasks, [&](LocalTask t) { return rank.done[t.index()] == 0; });
        mine.push_back(static_cast<std::uint32_t>(stuck - list.tasks.begin()));
      }
    }
    return all;
  }

 private:
  struct RankState {
    explicit RankState(const graph::Program& p)
        : program(&p), streams(queues(p)), next(streams.queues.size()), done(p.size(), 0), left(p.size()) {}
    // The head of a stream, or nothing.
    std::optional<LocalTask> head(std::size_t stream) const {
      const auto& tasks = streams.queues[stream].tasks;
      return next[stream] < tasks.size() ? std::optional(tasks[next[stream]]) : std::nullopt;
    }
    const graph::Program* program;
    std::vector<LocalTask> place_after;  // by task: the task that frees the slot it needs; kNoTask, or empty
    Queues streams;
    std::vector<std::size_t> next;  // of each stream
    std::vector<char> done;
    std::size_t left;
  };

  // The k-th copy out of a channel needs the slot of the (k - depth)-th, whose message must have left; the k-th receive
  // needs the slot of the (k - depth)-th, whose message must have been copied in.
  static std::vector<LocalTask> places(const graph::TaskGraph& graph, const graph::Program& program,
                                       std::size_t depth) {
    const std::vector<LocalTask> other = staging_copies(graph, program);
    std::vector<LocalTask> after(program.size(), kNoTask);
    for (std::size_t e = 0; e < program.endpoints.size(); ++e) {
      if (program.endpoints[e] == EndpointKind::group) continue;
      const auto messages = program.endpoint_tasks[e];
      for (std::size_t k = depth; k < messages.size(); ++k) {
        const LocalTask now = messages[k], before = messages[k - depth];
        if (other[now.index()] == kNoTask || other[before.index()] == kNoTask) continue;
        if (program.endpoints[e] == EndpointKind::send)
          after[other[now.index()].index()] = before;
        else
          after[now.index()] = other[before.index()];
      }
    }
    return after;
  }

  bool posted(RankId rank, LocalTask task) const {
    const RankState& mine = ranks_[rank.index()];
    if (!mine.place_after.empty() && mine.place_after[task.index()] != kNoTask &&
        !mine.done[mine.place_after[task.index()].index()])
      return false;
    return mine.head(mine.streams.of[task.index()]) == task &&
           std::ranges::all_of(mine.program->dependencies[task.index()],
                               [&](LocalTask before) { return mine.done[before.index()] != 0; });
  }

  void complete(RankId rank, LocalTask task) {
    RankState& mine = ranks_[rank.index()];
    ++mine.next[mine.streams.of[task.index()]];
    mine.done[task.index()] = 1;
    --mine.left;
    if (queued_[rank.index()]) return;
    queued_[rank.index()] = 1;
    queue_.push_back(rank);
  }

  // Performs what the heads of a rank's streams allow; returns whether there was progress.
  bool advance(RankId rank) {
    bool moved = false;
    const RankState& mine = ranks_[rank.index()];
    for (std::size_t stream = 0; stream < mine.next.size(); ++stream)
      while (mine.head(stream) && perform(rank, *mine.head(stream))) moved = true;
    return moved;
  }

  bool perform(RankId rank, LocalTask task) {
    if (!posted(rank, task)) return false;
    const graph::Program& program = *ranks_[rank.index()].program;
    const std::uint32_t endpoint = program.endpoint[task.index()];
    if (endpoint == graph::kNoEndpoint) {
      complete(rank, task);
    } else if (program.endpoints[endpoint] != EndpointKind::group) {
      const TaskId partner = graph_.partner(rank, task);
      const RankId peer = graph_.rank_of(partner);
      if (!posted(peer, graph_.local(partner))) return false;
      complete(rank, task);
      complete(peer, graph_.local(partner));
    } else {
      const auto meeting = graph_.meeting(rank, task);
      for (const auto [member, theirs] : *meeting)
        if (!posted(member, theirs)) return false;
      for (const auto [member, theirs] : *meeting) complete(member, theirs);
    }
    return true;
  }

  const graph::TaskGraph& graph_;
  std::vector<RankState> ranks_;
  std::vector<RankId> queue_;  // ranks to examine again
  std::vector<char> queued_;
};

}  // namespace

void check_zero_buffer(const graph::TaskGraph& graph) {
  Rendezvous rendezvous(graph);
  if (rendezvous.run()) return;
  throw MachineError("this order of tasks needs buffered messages: where a send waits for its receive, " +
                     hang_report(graph, rendezvous.positions()));
}

std::size_t message_depth(const graph::TaskGraph& graph) {
  std::size_t most = 1;  // messages of a channel: with that depth every message has its own slot
  for (const graph::Program& program : graph.programs())
    for (std::size_t e = 0; e < program.endpoints.size(); ++e) most = std::max(most, program.endpoint_tasks[e].size());
  std::size_t depth = 1;
  while (depth < most && !Rendezvous(graph, depth).run()) ++depth;
  return depth;
}

}  // namespace rehearsal::dispatch
