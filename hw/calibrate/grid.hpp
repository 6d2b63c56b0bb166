// Which shapes of kernels are measured when nobody asks for particular ones: enough of each kind, spread over the sizes
// that one core works on, for a model of its time (sim/cost/kernel_fit.hpp).
#pragma once
#include <vector>

#include "base/kernels.hpp"

namespace rehearsal::calibrate {

// Every kind. `quick`: about a third of the shapes, the longest left out.
std::vector<Kernel> kernel_grid(bool quick);

}  // namespace rehearsal::calibrate
