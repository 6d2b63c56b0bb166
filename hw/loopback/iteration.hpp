// One pass over a graph by real threads. Times are relative to the common start.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "dispatch/issue.hpp"
#include "graph/task_graph.hpp"

namespace rehearsal::loopback {

class Iteration {
 public:
  // Borrows everything; durations: one per WorkId.
  Iteration(const graph::TaskGraph& graph, std::span<const dispatch::IssueList> lists, std::span<const Time> durations);

  // Starts the threads, runs them through and joins them. Throws MachineError, after joining, when no task has started
  // or ended for `timeout` although none was waiting out its time.
  void run(Time timeout);

  // Indexed by TaskId; after run().
  std::vector<Time> start, end;

 private:
  struct Aborted {};
  // What the tasks of one rank wait for: other tasks of the rank, and sends to it. Guards `posted_` of its tasks.
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
  };
  struct Meeting {
    std::size_t arrived = 0;
    std::optional<Time> start;
  };
  struct GroupState {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Meeting> meetings;  // one per use
  };

  void issue(std::size_t list);
  void perform(const dispatch::IssueList& list, LocalTask task, Time& lane_start);
  void wait_for(RankId mine, TaskId task);
  Time meet(RankId rank, LocalTask task);
  void post(RankId rank, TaskId task, Time ends);
  void wait_out(Time until);
  Time elapsed() const;
  std::string heads() const;

  const graph::TaskGraph& graph_;
  std::span<const dispatch::IssueList> lists_;
  std::span<const Time> durations_;
  Time origin_;  // the common start, on the machine's clock

  std::vector<Mailbox> ranks_;
  std::vector<GroupState> groups_;
  // A task is posted when its end is known: for what runs on a lane once it has ended, for a message on its way as soon
  // as it has left (its end lies ahead). Under the mutex of the task's rank.
  std::vector<char> posted_;

  std::mutex control_;
  std::condition_variable moved_;  // ready, started, finished
  std::size_t ready_ = 0, finished_ = 0;
  bool go_ = false;
  std::vector<std::atomic<std::size_t>> position_;  // of each list: tasks done
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<std::int64_t> busy_until_{0};  // latest end that some thread is waiting out, since the origin
  std::atomic<bool> aborted_{false};
};

}  // namespace rehearsal::loopback
