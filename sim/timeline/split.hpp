// How the time of one task divides over categories: by its work, its pass and its lane.
#pragma once
#include <map>
#include <tuple>

#include "timeline/breakdown.hpp"

namespace rehearsal::timeline {

// Divides `span`, which is the predicted or the measured time of the task; the parts sum to it exactly. What is longer
// than `durations` says is contention where it is `predicted`, and else spread over the others.
Breakdown split_task(const graph::TaskGraph& graph, const graph::Program& program, std::size_t task, Time span,
                     std::span<const Time> durations, bool predicted);

// The same for many tasks: what a work consists of is added up once.
class Splits {
 public:
  Splits(const graph::TaskGraph& graph, std::span<const Time> durations) : graph_(graph), durations_(durations) {}
  Breakdown task(const graph::Program& program, std::size_t task, Time span, bool predicted);

 private:
  const graph::TaskGraph& graph_;
  std::span<const Time> durations_;
  std::map<std::tuple<WorkId, graph::Pass, graph::Lane>, Breakdown> known_;  // alone
};

// Of a work that is no sequence, and of what a kernel runs beside by itself.
graph::Category category_of(const graph::Work& work, graph::Pass pass, graph::Lane lane);

// Which lanes and passes make a collective one of data parallelism.
bool is_data_parallel(graph::Pass pass, graph::Lane lane);

}  // namespace rehearsal::timeline
