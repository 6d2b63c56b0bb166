// One question from end to end: a tensor between two meshes, or tasks given as they are, and how they are to be sent.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "reshard/registry.hpp"
#include "reshard/timing.hpp"
#include "reshard/transfers.hpp"

namespace rehearsal::reshard {

// A tensor of so many elements, between two sides that need not be grids.
struct Between {
  Side source, destination;
  std::int64_t elements = 0;
};

struct Question {
  std::string name;                      // a title for reports
  std::optional<Resharding> resharding;  // else `between`, else `given`
  std::optional<Between> between;
  std::vector<Transfer> given;  // each device a NIC and a host of its own
  Method method;
  std::string planner = "best";
  std::uint64_t seed = 0;
  bool split = false;
  std::vector<std::string> assumptions, warnings;
};

struct Answer {
  std::vector<Transfer> transfers;
  Numbered numbered;
  Plan plan;  // times in elements over one NIC
  double seconds = 0;
  std::int64_t chunks = 1;  // that a broadcast is cut into
  std::int64_t tensor_bytes = 0;
  double bandwidth() const { return double(tensor_bytes) / seconds; }
  // What no plan exceeds: the tensor over the time of the lower bound and one latency. With one sender, a single
  // send/recv of the tensor.
  double bandwidth_bound = 0;
  std::vector<Strategy> performed;    // what the transfers do, most frequent first
  std::vector<std::string> warnings;  // where that is not what was asked for
};

// Why the question is too large to be answered, or nothing.
std::optional<std::string> too_large(const Resharding& resharding, Strategy strategy);

// Throws UserError when the plan is longer than 100 days, or the planner refuses the problem.
// With Strategy::automatic the plan that takes least time, over every strategy for all tasks and the fastest one for
// each.
Answer answer(const Question& question);

}  // namespace rehearsal::reshard
