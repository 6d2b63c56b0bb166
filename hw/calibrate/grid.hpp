// The default shapes of kernels to measure: enough of each kind, spread over the sizes that one core works on, for a
// model of its time (sim/cost/kernel_fit.hpp).
#pragma once
#include <vector>

#include "base/kernels.hpp"

namespace rehearsal::calibrate {

// All kinds. `quick`: about a third of the shapes, without the longest.
std::vector<Kernel> kernel_grid(bool quick);

}  // namespace rehearsal::calibrate
