// List scheduling: whenever NICs become free, the waiting task of highest priority starts whose sender and receivers
// are all free. No task waits if it could start, so gaps left by one task are filled by others.
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

  // Longest first; with `jitter` above 0, each priority is randomly increased by up to that share. `rule` defines
  // length: 0 the task, 1 the task plus all work of its busiest receiver or only sender, 2 tasks with few
  // senders before others.
  std::vector<double> priorities(int rule, double jitter, Random& random) const;

  // Prefers the senders of `like` if they are free. Otherwise uses the sender in least demand by others, estimated with
  // a random error of up to a fifth if `lots` is given.
  std::vector<Sending> run(const std::vector<double>& priority, Random* lots = nullptr,
                           const std::vector<Sending>* like = nullptr);

  // NICs examined so far, over all runs: about one or two nanoseconds each. Searches are limited by it, so that they do
  // the same on every machine.
  std::int64_t effort() const { return effort_; }

 private:
  struct Waiting {
    double priority;
    bool near;  // among equals, tasks with a sender on their rail come first, before others take it
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
  std::vector<double> demand_of_sender_;  // the work of every task shared evenly among its possible senders
  // State of one run. Receivers are NICs from 0, followed by senders.
  std::vector<std::int64_t> free_at_;
  std::vector<Heap> parked_;  // per NIC: tasks that cannot start before it is free
  std::vector<double> pressure_;
  std::vector<Sending> schedule_;
  std::int64_t effort_ = 0;
};

}  // namespace rehearsal::reshard
