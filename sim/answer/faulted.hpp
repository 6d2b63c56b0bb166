// The cost of the machine's faults to a step, and which GPUs wait for slow ones.
#pragma once
#include <string>
#include <vector>

#include "answer/lowered_job.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::answer {

struct Faulted {
  Time without;          // the iteration on a healthy machine
  bool anomaly = false;  // the iteration is shorter with all faults, or with one of them, than without
  struct Cost {
    std::string fault;  // cluster::describe
    Time cost;          // by which the iteration would be shorter if only this fault were repaired
  };
  std::vector<Cost> each;  // in the order given; empty if there are too many to leave out one at a time
  // GPUs that wait for a tensor group with a slow GPU, longest total wait first.
  struct Waits {
    std::uint32_t awaited = 0, node = 0;  // first GPU of that tensor group, by its number in the job
    Axes axes;
    std::uint32_t gpus = 0;  // number of waiting GPUs
    Time mean, most;         // per waiting GPU
  };
  std::vector<Waits> waits;
};

// No fault speeds anything up by itself. If a step is shorter with one, delayed ranks reached a shared resource at
// another time and met fewer others there: a scheduling anomaly (R. L. Graham, Bounds on multiprocessing timing
// anomalies, SIAM J. Appl. Math. 17 (1969) 416), not an advantage of the fault.
// Returns nothing if there is no anomaly.
std::optional<std::string> anomaly_of_faults(const Faulted& faulted, Time iteration);

// Predicts the step without any faults, and without each of them.
Faulted faulted(const LoweredJob& lowered, const timeline::Timeline& timeline);

}  // namespace rehearsal::answer
