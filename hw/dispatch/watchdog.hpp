// Tells a hang from a long wait, and says what hangs.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dispatch/rank_loop.hpp"

namespace rehearsal::dispatch {

// Expires when nothing has moved for `timeout` although no rank waits out a time and none is inside a kernel.
class Watchdog {
 public:
  explicit Watchdog(Time timeout) : timeout_(timeout) {}
  // To be called again and again, several times per timeout. `now`: clock.hpp.
  bool expired(std::span<const Progress* const> ranks, Time now);

 private:
  Time timeout_;
  std::uint64_t moves_ = 0;
  Time last_move_{INT64_MIN};
};

// Position in each lane in use of a rank, as in Progress::heads: plain numbers that may cross processes.
using Positions = std::vector<std::uint32_t>;
Positions positions(const Progress& progress);

// The heads of the lanes of one rank that are not done, one indented line each.
std::vector<std::string> heads(const graph::TaskGraph& graph, RankId rank, const Positions& at);

// The whole report: the heads of all ranks, then which receive waits for which send, and which collective for whom.
std::string hang_report(const graph::TaskGraph& graph, std::span<const Positions> ranks);

}  // namespace rehearsal::dispatch
