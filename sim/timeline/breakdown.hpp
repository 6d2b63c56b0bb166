// Where the time of an iteration goes on one rank, and how busy each rank is. Works on simulated and measured
// timelines.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "timeline/timeline.hpp"

namespace rehearsal::timeline {

using Breakdown = std::array<Time, graph::kCategories>;  // indexed by graph::Category

// How the time of each work divides over categories: a Sequence by its items, in proportion to `durations`
// (one per WorkId). Pass::recompute and items marked so count as recompute.
Breakdown split(const graph::TaskGraph& graph, WorkId work, std::span<const Time> durations);

// Exposed time on the compute lane of `rank`; sums to the iteration time exactly. A gap in the compute lane belongs to
// data_comm while a data-parallel collective of the rank runs in it, to tensor_comm likewise, to pipeline_comm while a
// message to this rank is in flight (or waits for the wire of its sender) that the next task waits for, else it is
// bubble. Of a prediction, what lasts longer than alone is contention.
Breakdown breakdown(const graph::TaskGraph& graph, const Timeline& timeline, RankId rank,
                    std::span<const Time> durations);

// The part of it that waits for messages and collectives, on any lane. What these take from concurrent kernels is
// contention and not counted.
Time exposed_communication(const Breakdown& parts);

// The rank whose last task ends last (the smallest such id).
RankId last_rank(const graph::TaskGraph& graph, const Timeline& timeline);

// Time in which each rank works on its stage: everything on its compute lane but messages and data-parallel
// collectives, and what shows of tensor-parallel collectives beside it, which are part of a stage's time.
std::vector<Time> busy(const graph::TaskGraph& graph, const Timeline& timeline, std::span<const Time> durations);

struct CriticalStep {
  TaskId task;
  Time start, end;
};
// The chain of tasks that decides the end, from first to last; every step starts when its predecessor ends. A message
// that another waited for ends, as a step, when it has left the wire.
std::vector<CriticalStep> critical_path(const graph::TaskGraph& graph, const Timeline& timeline);
// What each task waited for: the predecessor that ended last, which set its start. Nothing without predecessor.
std::vector<std::optional<TaskId>> awaited(const graph::TaskGraph& graph, const Timeline& timeline);

}  // namespace rehearsal::timeline
