#include "loopback/iteration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/quantity_text.hpp"
#include "dispatch/clock.hpp"

namespace rehearsal::loopback {
namespace {

using graph::EndpointKind;

// All threads sleep until an instant this far ahead, so that none starts late because it was created late.
const Time kLead = seconds(3e-3);

std::chrono::nanoseconds to_chrono(Time time) { return std::chrono::nanoseconds(time.count() / 1000); }

std::optional<EndpointKind> kind_of(const graph::Program& program, LocalTask task) {
  const std::uint32_t endpoint = program.endpoint[task.index()];
  if (endpoint == graph::kNoEndpoint) return std::nullopt;
  return program.endpoints[endpoint];
}

}  // namespace

Iteration::Iteration(const graph::TaskGraph& graph, std::span<const dispatch::IssueList> lists,
                     std::span<const Time> durations)
    : start(graph.tasks()),
      end(graph.tasks()),
      graph_(graph),
      lists_(lists),
      durations_(durations),
      ranks_(graph.ranks().size()),
      groups_(graph.groups().size()),
      posted_(graph.tasks(), 0),
      position_(lists.size()) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const graph::GroupMember& first = graph.groups()[g].members.front();
    const graph::Program& program = graph.program_of(graph.ranks()[first.rank.index()]);
    groups_[g].meetings.resize(program.endpoint_tasks[first.endpoint.index()].size());
  }
}

void Iteration::run(Time timeout) {
  std::vector<std::thread> threads;
  auto abort_and_join = [&] {
    aborted_ = true;
    {
      std::lock_guard lock(control_);
      go_ = true;
    }
    moved_.notify_all();
    // Holding each mutex makes sure that no waiter misses the news between its test and its sleep.
    for (Mailbox& rank : ranks_) {
      std::lock_guard lock(rank.mutex);
      rank.changed.notify_all();
    }
    for (GroupState& group : groups_) {
      std::lock_guard lock(group.mutex);
      group.changed.notify_all();
    }
    for (std::thread& thread : threads) thread.join();
  };

  try {
    for (std::size_t i = 0; i < lists_.size(); ++i) threads.emplace_back([this, i] { issue(i); });
  } catch (const std::system_error& error) {
    abort_and_join();
    throw MachineError(
        fmt::format("loopback could not start thread {} of {}: {}", threads.size() + 1, lists_.size(), error.what()));
  }
  std::unique_lock lock(control_);
  moved_.wait(lock, [this] { return ready_ == lists_.size(); });
  origin_ = dispatch::now() + kLead;
  go_ = true;
  moved_.notify_all();

  std::uint64_t seen = 0;
  Time last_move = kLead;
  const auto look_again = std::max<std::chrono::nanoseconds>(to_chrono(timeout) / 4, std::chrono::milliseconds(1));
  while (!moved_.wait_for(lock, look_again, [this] { return finished_ == lists_.size(); })) {
    const Time at = elapsed();
    const std::uint64_t progress = progress_;
    if (progress != seen) seen = progress, last_move = at;
    last_move = std::max(last_move, Time(busy_until_.load()));
    if (at - last_move < timeout) continue;
    lock.unlock();
    abort_and_join();
    throw MachineError(
        fmt::format("loopback: nothing has moved for {}; the lanes stand at:{}", show(timeout), heads()));
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
}

void Iteration::issue(std::size_t list) {
  dispatch::wake_precisely();
  {
    std::unique_lock lock(control_);
    ++ready_;
    moved_.notify_all();
    moved_.wait(lock, [this] { return go_; });
  }
  try {
    if (!aborted_) dispatch::sleep_until(origin_);
    Time lane_start;
    for (LocalTask task : lists_[list].tasks) {
      if (aborted_) throw Aborted{};
      perform(lists_[list], task, lane_start);
      ++position_[list];
    }
  } catch (const Aborted&) {
    return;  // run() reports
  }
  std::lock_guard lock(control_);
  ++finished_;
  moved_.notify_all();
}

void Iteration::perform(const dispatch::IssueList& list, LocalTask task, Time& lane_start) {
  const RankId rank = list.rank;
  const graph::Program& program = graph_.program_of(graph_.ranks()[rank.index()]);
  const TaskId id = graph_.task(rank, task);
  const auto kind = kind_of(program, task);
  for (LocalTask before : program.dependencies[task.index()]) wait_for(rank, graph_.task(rank, before));
  if (kind == EndpointKind::receive) wait_for(rank, graph_.partner(rank, task));

  const Time begins = kind == EndpointKind::group ? meet(rank, task) : std::max(elapsed(), lane_start);
  const Time lasts = kind == EndpointKind::receive ? Time{} : durations_[program.work[task.index()].index()];
  start[id.index()] = lane_start = begins;
  ++progress_;
  if (graph::is_serial(list.lane)) {
    wait_out(begins + lasts);
    post(rank, id, std::max(elapsed(), begins + lasts));
  } else {
    post(rank, id, begins + lasts);  // on its way; the lane goes on
  }
  ++progress_;
}

// Until `task`, of this rank or a send to it, has ended.
void Iteration::wait_for(RankId mine, TaskId task) {
  Mailbox& rank = ranks_[mine.index()];
  Time until;
  {
    std::unique_lock lock(rank.mutex);
    rank.changed.wait(lock, [&] { return posted_[task.index()] != 0 || aborted_; });
    if (aborted_) throw Aborted{};
    until = end[task.index()];
  }
  wait_out(until);
}

Time Iteration::meet(RankId rank, LocalTask task) {
  const graph::Rank& mine = graph_.ranks()[rank.index()];
  const graph::Program& program = graph_.program_of(mine);
  const GroupId id = mine.attachments[program.endpoint[task.index()]].group;
  GroupState& group = groups_[id.index()];
  Meeting& meeting = group.meetings[program.sequence[task.index()]];
  std::unique_lock lock(group.mutex);
  if (++meeting.arrived == graph_.groups()[id.index()].members.size()) {
    meeting.start = elapsed();
    group.changed.notify_all();
  }
  group.changed.wait(lock, [&] { return meeting.start.has_value() || aborted_; });
  if (!meeting.start) throw Aborted{};
  return *meeting.start;
}

// Makes the end of a task known to those who wait for it: its rank and, for a send, the rank at the other end. A send
// is posted under the mutex of the receiver too, which is the one its receive looks at.
void Iteration::post(RankId rank, TaskId task, Time ends) {
  const graph::Rank& mine = graph_.ranks()[rank.index()];
  const graph::Program& program = graph_.program_of(mine);
  const LocalTask local(task.value - mine.first_task);
  if (kind_of(program, local) == EndpointKind::send) {
    const RankId peer = mine.attachments[program.endpoint[local.index()]].peer;
    if (peer != rank) {
      std::scoped_lock both(ranks_[rank.index()].mutex, ranks_[peer.index()].mutex);
      end[task.index()] = ends;
      posted_[task.index()] = 1;
      ranks_[rank.index()].changed.notify_all();
      ranks_[peer.index()].changed.notify_all();
      return;
    }
  }
  std::lock_guard lock(ranks_[rank.index()].mutex);
  end[task.index()] = ends;
  posted_[task.index()] = 1;
  ranks_[rank.index()].changed.notify_all();
}

void Iteration::wait_out(Time until) {
  if (until <= elapsed()) return;
  std::int64_t latest = busy_until_;
  while (latest < until.count() && !busy_until_.compare_exchange_weak(latest, until.count())) {
  }
  dispatch::sleep_until(origin_ + until);
}

Time Iteration::elapsed() const { return dispatch::now() - origin_; }

std::string Iteration::heads() const {
  constexpr std::size_t kShown = 32;
  std::string text;
  std::size_t shown = 0, more = 0;
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    const dispatch::IssueList& list = lists_[i];
    if (position_[i] == list.tasks.size()) continue;
    if (shown++ >= kShown) {
      ++more;
      continue;
    }
    text += fmt::format("\n  rank {}, lane {}, at {} ({} of {} done)", list.rank.value, graph::name(list.lane),
                        graph_.label(list.rank, list.tasks[position_[i]]), position_[i].load(), list.tasks.size());
  }
  if (more > 0) text += fmt::format("\n  and {} more lanes", more);
  return text;
}

}  // namespace rehearsal::loopback
