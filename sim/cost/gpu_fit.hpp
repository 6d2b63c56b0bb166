// The constants of a GPU from its measured times. Robust: relative errors beyond a tenth count by their size, not by
// its square, so that a few disturbed samples do not move a fit. Equations: models/README.md, section 5.
#pragma once
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cost/gpu_times.hpp"

namespace rehearsal::cost {

// Fills every fit and every error from the samples. `base`: the GPU file, for what the samples do not determine.
// Throws UserError when a section has samples, but none to fit to.
void fit_gpu(GpuTimes& times, const cluster::Gpu& base);

// Copies below this size are latency and protocol; a link's fit is for those from here on.
inline constexpr Bytes kLinkFitFrom{1 << 20};

// Every sample against its prediction by the fit, in seconds: the table behind the errors.
struct Judged {
  std::string section, shape;  // "gemm bf16", "4096 x 4096 x 1024"
  double predicted = 0, measured = 0;
  bool held_out = false;
};
std::vector<Judged> judge(const GpuTimes& times, const cluster::Gpu& base);

}  // namespace rehearsal::cost
