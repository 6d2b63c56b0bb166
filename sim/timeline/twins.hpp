// Ranks that did the same at the same time. Results from the program and spans of one (how busy it is, its memory) hold
// for all of them, so that 16,384 ranks of which 16 differ cost as much as 16.
#pragma once
#include <vector>

#include "timeline/timeline.hpp"

namespace rehearsal::timeline {

// For each rank the first one with the same program and the same spans, which may be itself.
std::vector<RankId> identical_ranks(const graph::TaskGraph& graph, const Timeline& timeline);

}  // namespace rehearsal::timeline
