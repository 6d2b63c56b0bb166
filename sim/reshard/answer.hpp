// A complete resharding question: a tensor between two meshes or given tasks, and the method of sending them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "reshard/registry.hpp"
#include "reshard/timing.hpp"
#include "reshard/transfers.hpp"

namespace rehearsal::reshard {

// A tensor with a number of elements, between two sides that need not be grids.
struct Between {
  Side source, destination;
  std::int64_t elements = 0;
};

struct Question {
  std::string name;                      // a title for reports
  std::optional<Resharding> resharding;  // otherwise `between`, otherwise `given`
  std::optional<Between> between;
  std::vector<Transfer> given;  // each device has a NIC and a host of its own
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
  std::int64_t chunks = 1;  // of each broadcast
  std::int64_t tensor_bytes = 0;
  double bandwidth() const { return double(tensor_bytes) / seconds; }
  // Upper bound of the bandwidth: the tensor over the lower bound's time plus one latency. With one sender, that of a
  // single send/recv of the tensor.
  double bandwidth_bound = 0;
  std::vector<Strategy> performed;    // strategies of the transfers, most frequent first
  std::vector<std::string> warnings;  // if these differ from the requested one
};

// The reason why the question is too large, or nothing.
std::optional<std::string> too_large(const Resharding& resharding, Strategy strategy);

// Throws UserError when the plan is longer than 100 days, or when the planner refuses the problem.
// Strategy::automatic gives the fastest plan among each strategy for all tasks and the fastest strategy for
// each task.
Answer answer(const Question& question);

}  // namespace rehearsal::reshard
