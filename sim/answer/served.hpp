// Results of parameter servers: steps per second, and the staleness of the parameters that workers compute with.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "answer/lowered_job.hpp"
#include "backend/backend.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::answer {

// An update applies the sum of all workers' gradients of an iteration or, if workers never wait, the gradients of one
// worker.
struct Served {
  std::int64_t servers = 1;
  double steps_per_s = 0;  // iterations of all workers; mean over the workers
  // Age of the parameters that gradients were computed from when these are added, in steps of all workers: an update of
  // one worker counts 1/workers, so that bounded and unbounded delays compare.
  double staleness_mean = 0, staleness_max = 0;
  bool by_worker = false;     // an update comes from one worker
  std::int64_t versions = 1;  // parameter versions in use at once, including the newest
  double updates_per_sample = 0;
  friend bool operator==(const Served&, const Served&) = default;
};

Served synchronous(const scenario::Scenario& scenario, Time iteration);
// Several iterations in one graph, in which the programs fix the order of updates and so the age of the parameters.
// `all`: their total time.
Served in_turn(LoweredJob& lowered, Time all);

// Several iterations of workers that may run ahead of each other, in place of the single one of `timeline`, which
// afterwards has the spans of a late iteration, each worker's from where it begins to compute, and the steady
// period as its length.
Served delayed(LoweredJob& lowered, timeline::Timeline& timeline, backend::RunOptions run);

}  // namespace rehearsal::answer
