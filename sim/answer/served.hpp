// What parameter servers come to: steps per second, and how old what workers compute with is.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "answer/lowered_job.hpp"
#include "backend/backend.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::answer {

// An update: of the sum of all workers' gradients of an iteration; or, with workers that wait for nobody, of one
// worker's gradients.
struct Served {
  std::int64_t servers = 1;
  double steps_per_s = 0;  // iterations of all workers, in the mean over them
  // Between the parameters that gradients were computed from and those that they are added to, in steps of all workers:
  // an update of one worker is 1/workers of one, so that delays with and without a bound compare.
  double staleness_mean = 0, staleness_max = 0;
  bool by_worker = false;     // an update is of one worker
  std::int64_t versions = 1;  // states of the parameters that are in use at once, the newest counted
  double updates_per_sample = 0;
  friend bool operator==(const Served&, const Served&) = default;
};

Served synchronous(const scenario::Scenario& scenario, Time iteration);
// Several iterations that are one graph, in which workers take updates by the order of their programs, which says how
// old the parameters are that they compute with. `all`: how long they took.
Served in_turn(LoweredJob& lowered, Time all);

// Several iterations of workers that may be ahead of each other, in place of the one of `timeline`: afterwards its
// spans are those of a late iteration, each worker's from where it begins to compute, and its length is the steady
// period.
Served delayed(LoweredJob& lowered, timeline::Timeline& timeline, backend::RunOptions run);

}  // namespace rehearsal::answer
