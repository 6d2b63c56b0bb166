// What a planner sees: tasks that occupy one sender and all of their receivers for a while, and what it answers.
//
// Time is counted in elements over one network interface (NIC). A NIC sends one thing at a time and receives one thing
// at a time, both at once (full duplex): senders and receivers are therefore numbered apart, each from 0. Forwarding
// along a broadcast chain does not count as sending.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace rehearsal::reshard {

struct Replica {
  std::uint32_t device = 0;  // index into Problem::sender_devices' loads
  std::uint32_t sender = 0;  // the NIC it sends by
};

struct Task {
  std::vector<std::uint32_t> senders, receivers;  // ascending, not empty
  std::int64_t work = 0;                          // above 0
  std::vector<Replica> replicas;                  // the devices behind `senders`, in order
  std::optional<std::uint32_t> nearest;           // of senders that are equally good, this one: it crosses no rails
};

struct Problem {
  std::uint32_t senders = 0, receivers = 0, devices = 0;
  std::vector<Task> tasks;  // in natural order
  std::uint64_t seed = 0;   // of planners that draw lots
  bool split = false;       // a task may be shared between senders (and interrupted)
};

// A task, or with Problem::split a part of one, sent by `sender` during [start, end).
struct Sending {
  std::uint32_t task = 0, sender = 0;
  std::int64_t start = 0, end = 0;
};

struct Found {
  std::vector<Sending> schedule;  // one per task in order of tasks; with Problem::split the parts of each, by start
  std::int64_t lower_bound = 0;   // what the planner proved on its way; 0 = nothing
};

struct Plan {
  std::vector<Sending> schedule;
  std::int64_t makespan = 0, lower_bound = 0;
  bool optimal() const { return makespan == lower_bound; }  // proven
};

std::int64_t makespan_of(const std::vector<Sending>& schedule);

// Tasks in `order`, each begun as soon as its sender and all its receivers are free of what came before it in the
// order; no task fills a gap left earlier. `sender[task]`.
std::vector<Sending> in_order(const Problem& problem, const std::vector<std::uint32_t>& order,
                              const std::vector<std::uint32_t>& sender);
std::vector<std::uint32_t> natural_order(const Problem& problem);

// INVARIANT: every task is sent whole by senders of its own, and nothing overlaps on a NIC's side.
void check(const Problem& problem, const std::vector<Sending>& schedule);

}  // namespace rehearsal::reshard
