// What the faults of a machine cost a step, and who waits for the slow ones.
#pragma once
#include <string>
#include <vector>

#include "answer/lowered_job.hpp"
#include "timeline/timeline.hpp"

namespace rehearsal::answer {

struct Faulted {
  Time without;          // the iteration on a sound machine
  bool anomaly = false;  // the iteration is shorter with the faults, or with one of them, than without
  struct Cost {
    std::string fault;  // cluster::describe
    Time cost;          // by which the iteration would be shorter if it alone were mended
  };
  std::vector<Cost> each;  // as given; empty where there are too many to take one away at a time
  // Of GPUs that wait for one in whose tensor group a GPU is slow: in all, the most first.
  struct Waits {
    std::uint32_t awaited = 0, node = 0;  // the first of that tensor group, by its number in the job
    Axes axes;
    std::uint32_t gpus = 0;  // that wait
    Time mean, most;         // of each
  };
  std::vector<Waits> waits;
};

// A fault makes nothing faster by itself. Where a step is shorter with one, ranks that were held up have come to what
// they share at another time than the others, and met fewer of them there: an anomaly of scheduling (R. L. Graham,
// Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17 (1969) 416), which says nothing for the fault.
// Nothing: there is none.
std::optional<std::string> anomaly_of_faults(const Faulted& faulted, Time iteration);

// Predicts the step without the faults, and without each.
Faulted faulted(const LoweredJob& lowered, const timeline::Timeline& timeline);

}  // namespace rehearsal::answer
