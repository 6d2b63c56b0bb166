// Ranks that did the same at the same time. What is derived from the program and the spans of one (how busy it is, its
// memory) holds for all of them, so that 16,384 ranks of which 16 differ cost as much as 16.
#pragma once
#include <vector>

#include "timeline/timeline.hpp"

namespace rehearsal::timeline {

// For each rank the first one with the same program and the same spans; itself where there is none.
std::vector<RankId> identical_ranks(const graph::TaskGraph& graph, const Timeline& timeline);

}  // namespace rehearsal::timeline
