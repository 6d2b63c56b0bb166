// The planner's interface: tasks that each occupy one sender and all of their receivers for a time, and the plan.
//
// Time is counted in elements over one network interface (NIC). A NIC can send one transfer and receive one at the
// same time (full duplex), so senders and receivers are numbered separately, each from 0. Forwarding
// along a broadcast chain does not count as sending.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace rehearsal::reshard {

struct Replica {
  std::uint32_t device = 0;  // index into Problem::sender_devices' loads
  std::uint32_t sender = 0;  // the NIC that it sends through
};

struct Task {
  std::vector<std::uint32_t> senders, receivers;  // ascending, not empty
  std::int64_t work = 0;                          // above 0
  std::vector<Replica> replicas;                  // the devices behind `senders`, in the same order
  std::optional<std::uint32_t> nearest;           // among equally good senders, preferred because it stays on the rail
};

struct Problem {
  std::uint32_t senders = 0, receivers = 0, devices = 0;
  std::vector<Task> tasks;  // in natural order
  std::uint64_t seed = 0;   // for randomised planners
  bool split = false;       // a task may be shared between senders (and interrupted)
};

// A task or, with Problem::split, a part of one, sent by `sender` during [start, end).
struct Sending {
  std::uint32_t task = 0, sender = 0;
  std::int64_t start = 0, end = 0;
};

struct Found {
  std::vector<Sending> schedule;  // one per task, in order; with Problem::split the parts of each task, by start
  std::int64_t lower_bound = 0;   // proven by the planner; 0 = nothing
};

struct Plan {
  std::vector<Sending> schedule;
  std::int64_t makespan = 0, lower_bound = 0;
  bool optimal() const { return makespan == lower_bound; }  // proven
};

std::int64_t makespan_of(const std::vector<Sending>& schedule);

// Schedules tasks in `order`, each as soon as its sender and receivers have finished everything earlier in the
// order; gaps are not filled. `sender[task]`.
std::vector<Sending> in_order(const Problem& problem, const std::vector<std::uint32_t>& order,
                              const std::vector<std::uint32_t>& sender);
std::vector<std::uint32_t> natural_order(const Problem& problem);

// INVARIANT: every task is completely sent by its own possible senders, and nothing overlaps on either side of a NIC.
void check(const Problem& problem, const std::vector<Sending>& schedule);

}  // namespace rehearsal::reshard
