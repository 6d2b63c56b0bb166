// What collectives took on the machine of the traces, by kind, number of ranks and size: curves as nccl-tests would
// measure them. A collective's transfer is known where the traces of all ranks of its group are given: the shortest of
// its kernels, of which none waits for another rank then; of several of one size the least counts, which nothing
// beside it has slowed.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "collective/size_curve.hpp"
#include "traces/trace.hpp"

namespace rehearsal::traces {

struct CollectiveTimes {
  collective::SizeCurves curves;   // empty: nothing can be used
  std::vector<std::string> notes;  // what they are of, and what was left out
};
CollectiveTimes collective_times(std::span<const Trace> traces);

}  // namespace rehearsal::traces
