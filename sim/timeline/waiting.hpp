// Which ranks wait for which: a group for its last member, the receiver of a message for its sender.
#pragma once
#include <vector>

#include "timeline/timeline.hpp"

namespace rehearsal::timeline {

struct Waiting {
  RankId rank, awaited;
  Axes axes;  // of the group; pipeline for messages
  Time time;  // of one iteration
};
// All waits of each pair, along each set of axes; pairs that never wait are left out. A group waits from the moment in
// which a member could have started until the last one could; a message is waited for while the compute lane is idle
// although everything else is ready.
std::vector<Waiting> waiting(const graph::TaskGraph& graph, const Timeline& timeline);

}  // namespace rehearsal::timeline
