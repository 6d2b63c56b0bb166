// One rank after another, task by task, with hand-made times.
#pragma once
#include "graph/builder.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::timeline {

using graph::Lane;
using graph::Pass;

inline graph::TaskSpec task(WorkId work, Lane lane, Pass pass = Pass::forward,
                            std::uint32_t endpoint = graph::kNoEndpoint) {
  return {work, lane, {pass, 0, graph::kNoLayer, 0}, endpoint, {}};
}

inline Timeline spans(const std::vector<std::pair<int, int>>& times) {
  Timeline timeline;
  Time last;
  for (const auto& [start, end] : times) {
    timeline.start.push_back(Time(start));
    timeline.end.push_back(Time(end));
    last = std::max(last, Time(end));
  }
  timeline.iteration_end = {last};
  return timeline;
}

}  // namespace rehearsal::timeline
