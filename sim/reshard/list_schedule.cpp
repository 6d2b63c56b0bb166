#include "reshard/list_schedule.hpp"

#include <algorithm>
#include <limits>

namespace rehearsal::reshard {

ListScheduler::ListScheduler(const Problem& problem)
    : problem_(problem), demand_of_receiver_(problem.receivers), demand_of_sender_(problem.senders) {
  for (const auto& task : problem.tasks) {
    for (const auto r : task.receivers) demand_of_receiver_[r] += task.work;
    for (const auto s : task.senders) demand_of_sender_[s] += double(task.work) / double(task.senders.size());
  }
}

void ListScheduler::park(std::size_t nic, Waiting waiting) {
  parked_[nic].push_back(waiting);
  std::push_heap(parked_[nic].begin(), parked_[nic].end());
}

bool ListScheduler::try_start(std::uint32_t t, std::int64_t now, Random* lots, const std::vector<Sending>* like) {
  const Task& task = problem_.tasks[t];
  effort_ += std::int64_t(task.receivers.size() + task.senders.size());
  for (const auto r : task.receivers)
    if (free_at_[r] > now) return false;
  std::uint32_t chosen = 0;
  double least = std::numeric_limits<double>::infinity();
  for (const auto s : task.senders) {
    if (free_at_[problem_.receivers + s] > now) continue;
    double need = pressure_[s] * (lots ? 1 + 0.2 * lots->fraction() : 1.0);
    if (like && (*like)[t].sender == s) need = -std::numeric_limits<double>::infinity();
    if (need < least || (need == least && task.nearest == s)) least = need, chosen = s;
  }
  if (least == std::numeric_limits<double>::infinity()) return false;
  for (const auto s : task.senders) pressure_[s] -= double(task.work) / double(task.senders.size());
  pressure_[chosen] += double(task.work);
  const std::int64_t end = now + task.work;
  free_at_[problem_.receivers + chosen] = end;
  for (const auto r : task.receivers) free_at_[r] = end;
  schedule_[t] = {t, chosen, now, end};
  return true;
}

std::vector<double> ListScheduler::priorities(int rule, double jitter, Random& random) const {
  std::vector<double> priorities;
  for (const auto& task : problem_.tasks) {
    double priority = double(task.work);
    if (rule == 1) {
      std::int64_t most = 0;
      for (const auto r : task.receivers) most = std::max(most, demand_of_receiver_[r]);
      priority += double(most);
      if (task.senders.size() == 1) priority += demand_of_sender_[task.senders.front()];
    } else if (rule == 2) {
      priority /= double(task.senders.size());
    }
    priorities.push_back(jitter > 0 ? priority * (1 + jitter * random.fraction()) : priority);
  }
  return priorities;
}

std::vector<Sending> ListScheduler::run(const std::vector<double>& priority, Random* lots,
                                        const std::vector<Sending>* like) {
  const auto& tasks = problem_.tasks;
  const std::size_t nics = problem_.receivers + problem_.senders;
  free_at_.assign(nics, 0);
  parked_.resize(nics);
  for (auto& heap : parked_) heap.clear();
  pressure_ = demand_of_sender_;
  schedule_.assign(tasks.size(), {});
  // Initially every task waits at its first receiver, and all NICs are free.
  for (std::uint32_t t = 0; t < tasks.size(); t++)
    parked_[tasks[t].receivers.front()].push_back({priority[t], tasks[t].nearest.has_value(), t});
  std::vector<std::uint32_t> freed;
  for (std::uint32_t nic = 0; nic < nics; nic++) {
    std::make_heap(parked_[nic].begin(), parked_[nic].end());
    freed.push_back(nic);
  }
  // Busy NICs, by the time at which they become free.
  using Event = std::pair<std::int64_t, std::uint32_t>;
  std::vector<Event> events;
  std::size_t left = tasks.size();
  for (std::int64_t now = 0; left > 0;) {
    // Takes the highest priority parked at any free NIC; a task that cannot start is parked at a NIC that blocks it.
    while (!freed.empty()) {
      std::size_t pick = freed.size();
      for (std::size_t i = 0; i < freed.size();) {
        const auto nic = freed[i];
        if (free_at_[nic] > now || parked_[nic].empty()) {
          freed[i] = freed.back(), freed.pop_back();
          if (pick == freed.size()) pick = i;  // the last one was moved to this index
          continue;
        }
        if (pick >= freed.size() || parked_[freed[pick]].front() < parked_[nic].front()) pick = i;
        i++;
      }
      if (pick >= freed.size()) break;
      Heap& heap = parked_[freed[pick]];
      std::pop_heap(heap.begin(), heap.end());
      const Waiting waiting = heap.back();
      heap.pop_back();
      const Task& task = tasks[waiting.task];
      if (try_start(waiting.task, now, lots, like)) {
        left--;
        for (const auto r : task.receivers)
          events.emplace_back(-free_at_[r], r), std::push_heap(events.begin(), events.end());
        const auto sender = std::uint32_t(problem_.receivers + schedule_[waiting.task].sender);
        events.emplace_back(-free_at_[sender], sender), std::push_heap(events.begin(), events.end());
        continue;
      }
      // The task cannot start before its busiest receiver is free, nor before its first free sender.
      std::uint32_t keeper = task.receivers.front();
      for (const auto r : task.receivers)
        if (free_at_[r] > free_at_[keeper]) keeper = r;
      if (free_at_[keeper] <= now) {
        keeper = std::uint32_t(problem_.receivers + task.senders.front());
        for (const auto s : task.senders)
          if (free_at_[problem_.receivers + s] < free_at_[keeper]) keeper = std::uint32_t(problem_.receivers + s);
      }
      park(keeper, waiting);
    }
    if (left == 0) break;
    now = -events.front().first;
    while (!events.empty() && -events.front().first == now) {
      freed.push_back(events.front().second);
      std::pop_heap(events.begin(), events.end());
      events.pop_back();
    }
  }
  return schedule_;
}

}  // namespace rehearsal::reshard
