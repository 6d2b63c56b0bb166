// List scheduling: whenever NICs fall free, the waiting task of highest priority whose sender and receivers are all
// free starts. Nothing that could start waits, so gaps left by one task are filled by others.
#pragma once
#include <cstdint>
#include <tuple>
#include <vector>

#include "base/random.hpp"
#include "reshard/problem.hpp"

namespace rehearsal::reshard {

class ListScheduler {
 public:
  explicit ListScheduler(const Problem& problem);

  // Longest first, by rule; with `jitter` above 0 each priority is worth up to that much more, by lot. `rule` says what
  // long means: 0 the task, 1 the task and all that its busiest receiver or only sender must do, 2 tasks with few
  // senders before others.
  std::vector<double> priorities(int rule, double jitter, Random& random) const;

  // `like`: its senders are preferred where they are free. Without it the sender that others need least, judged with an
  // error of up to a fifth when `lots` is given.
  std::vector<Sending> run(const std::vector<double>& priority, Random* lots = nullptr,
                           const std::vector<Sending>* like = nullptr);

  // NICs looked at so far, over all runs: about a nanosecond or two each. Searches end by it, so that they do the same
  // on every machine.
  std::int64_t effort() const { return effort_; }

 private:
  struct Waiting {
    double priority;
    bool near;  // of equals those first that have a sender on their rail: others would take it from them
    std::uint32_t task;
    bool operator<(const Waiting& other) const {
      return std::tuple(priority, near, other.task) < std::tuple(other.priority, other.near, task);
    }
  };
  using Heap = std::vector<Waiting>;

  bool try_start(std::uint32_t task, std::int64_t now, Random* lots, const std::vector<Sending>* like);
  void park(std::size_t nic, Waiting waiting);

  const Problem& problem_;
  std::vector<std::int64_t> demand_of_receiver_;
  std::vector<double> demand_of_sender_;  // every task's work shared evenly between its candidates
  // Of one run. Receivers are NICs 0.. and senders come after them.
  std::vector<std::int64_t> free_at_;
  std::vector<Heap> parked_;  // per NIC: tasks that cannot start before it is free
  std::vector<double> pressure_;
  std::vector<Sending> schedule_;
  std::int64_t effort_ = 0;
};

}  // namespace rehearsal::reshard
