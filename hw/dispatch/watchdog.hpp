// Distinguishes a hang from a long wait, and reports which tasks hang.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dispatch/rank_loop.hpp"

namespace rehearsal::dispatch {

// Expires when there was no progress for `timeout`, although no rank waits out a time or runs a kernel.
class Watchdog {
 public:
  explicit Watchdog(Time timeout) : timeout_(timeout) {}
  // Must be called several times per timeout. `now`: clock.hpp.
  bool expired(std::span<const Progress* const> ranks, Time now);

 private:
  Time timeout_;
  std::uint64_t moves_ = 0;
  Time last_move_{INT64_MIN};
};

// By lane in use of a rank, the position of its head, as in Progress::heads: plain numbers that can cross processes.
using Positions = std::vector<std::uint32_t>;
Positions positions(const Progress& progress);

// The heads of a rank's unfinished lanes, one indented line each.
std::vector<std::string> heads(const graph::TaskGraph& graph, RankId rank, const Positions& at);

// The whole report: heads of all ranks, then the send that each receive waits for and the ranks each collective lacks.
std::string hang_report(const graph::TaskGraph& graph, std::span<const Positions> ranks);

}  // namespace rehearsal::dispatch
