#include "reshard/problem.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace rehearsal::reshard {

std::int64_t makespan_of(const std::vector<Sending>& schedule) {
  std::int64_t last = 0;
  for (const auto& s : schedule) last = std::max(last, s.end);
  return last;
}

std::vector<std::uint32_t> natural_order(const Problem& problem) {
  std::vector<std::uint32_t> order(problem.tasks.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<Sending> in_order(const Problem& problem, const std::vector<std::uint32_t>& order,
                              const std::vector<std::uint32_t>& sender) {
  std::vector<std::int64_t> sends(problem.senders), receives(problem.receivers);
  std::vector<Sending> schedule(problem.tasks.size());
  for (const auto t : order) {
    const Task& task = problem.tasks[t];
    std::int64_t start = sends[sender[t]];
    for (const auto r : task.receivers) start = std::max(start, receives[r]);
    const std::int64_t end = start + task.work;
    sends[sender[t]] = end;
    for (const auto r : task.receivers) receives[r] = end;
    schedule[t] = {t, sender[t], start, end};
  }
  return schedule;
}

void check(const Problem& problem, const std::vector<Sending>& schedule) {
  std::vector<std::int64_t> sent(problem.tasks.size());
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> sends(problem.senders), receives(problem.receivers);
  for (const auto& s : schedule) {
    const Task& task = problem.tasks.at(s.task);
    INVARIANT(std::binary_search(task.senders.begin(), task.senders.end(), s.sender), "sent by a NIC without the data");
    INVARIANT(s.start >= 0 && s.end > s.start, "a sending without time");
    sent[s.task] += s.end - s.start;
    sends[s.sender].emplace_back(s.start, s.end);
    for (const auto r : task.receivers) receives[r].emplace_back(s.start, s.end);
  }
  for (std::size_t t = 0; t < sent.size(); t++) INVARIANT(sent[t] == problem.tasks[t].work, "a task is not sent whole");
  for (auto* side : {&sends, &receives})
    for (auto& nic : *side) {
      std::sort(nic.begin(), nic.end());
      for (std::size_t i = 1; i < nic.size(); i++)
        INVARIANT(nic[i - 1].second <= nic[i].first, "two transfers at once on one side of a NIC");
    }
}

}  // namespace rehearsal::reshard
