#include "dispatch/zero_buffer.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "dispatch/issue.hpp"
#include "dispatch/watchdog.hpp"

namespace rehearsal::dispatch {
namespace {

using graph::EndpointKind;

class Rendezvous {
 public:
  explicit Rendezvous(const graph::TaskGraph& graph) : graph_(graph), queued_(graph.ranks().size(), 1) {
    for (const graph::Rank& rank : graph.ranks()) ranks_.emplace_back(graph.program_of(rank));
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
  struct Stream {
    std::vector<LocalTask> tasks;
    std::size_t next = 0;
  };
  // Serial lanes are one stream each, the others one per channel.
  struct RankState {
    explicit RankState(const graph::Program& p) : program(&p), stream_of(p.size()), done(p.size(), 0), left(p.size()) {
      streams.resize(graph::kLanes + p.endpoints.size());
      for (std::size_t i = 0; i < p.size(); ++i) {
        const bool own = !graph::is_serial(p.lane[i]) && p.endpoint[i] != graph::kNoEndpoint;
        stream_of[i] = static_cast<std::uint32_t>(own ? graph::kLanes + p.endpoint[i] : std::size_t(p.lane[i]));
        streams[stream_of[i]].tasks.push_back(LocalTask(i));
      }
    }
    const graph::Program* program;
    std::vector<Stream> streams;
    std::vector<std::uint32_t> stream_of;
    std::vector<char> done;
    std::size_t left;
  };

  bool posted(RankId rank, LocalTask task) const {
    const RankState& mine = ranks_[rank.index()];
    const Stream& stream = mine.streams[mine.stream_of[task.index()]];
    return stream.next < stream.tasks.size() && stream.tasks[stream.next] == task &&
           std::ranges::all_of(mine.program->dependencies[task.index()],
                               [&](LocalTask before) { return mine.done[before.index()] != 0; });
  }

  void complete(RankId rank, LocalTask task) {
    RankState& mine = ranks_[rank.index()];
    ++mine.streams[mine.stream_of[task.index()]].next;
    mine.done[task.index()] = 1;
    --mine.left;
    if (queued_[rank.index()]) return;
    queued_[rank.index()] = 1;
    queue_.push_back(rank);
  }

  // Performs what the heads of a rank's streams allow; true when something moved.
  bool advance(RankId rank) {
    bool moved = false;
    for (const Stream& stream : ranks_[rank.index()].streams)
      while (stream.next < stream.tasks.size() && perform(rank, stream.tasks[stream.next])) moved = true;
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
      const graph::Group& group = graph_.groups()[graph_.ranks()[rank.index()].attachments[endpoint].group.index()];
      auto use = [&](const graph::GroupMember& member) {
        const graph::Program& theirs = *ranks_[member.rank.index()].program;
        return theirs.endpoint_tasks[member.endpoint.index()][program.sequence[task.index()]];
      };
      for (const graph::GroupMember& member : group.members)
        if (!posted(member.rank, use(member))) return false;
      for (const graph::GroupMember& member : group.members) complete(member.rank, use(member));
    }
    return true;
  }

  const graph::TaskGraph& graph_;
  std::vector<RankState> ranks_;
  std::vector<RankId> queue_;  // ranks to look at again
  std::vector<char> queued_;
};

}  // namespace

void check_zero_buffer(const graph::TaskGraph& graph) {
  Rendezvous rendezvous(graph);
  if (rendezvous.run()) return;
  throw MachineError("this order of tasks needs buffered messages: where a send waits for its receive, " +
                     hang_report(graph, rendezvous.positions()));
}

}  // namespace rehearsal::dispatch
