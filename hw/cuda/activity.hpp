// A second opinion on times: the records that NVIDIA's profiler library (CUPTI) makes of kernels and copies. Opened
// while running, so that it need not be there; only Activity::unavailable tells.
#pragma once
#include "gpu/device.hpp"

namespace rehearsal::cuda {

class Profiler {
 public:
  explicit Profiler(int device) : device_(device) {}
  // From here to observed(), of this device; nothing may be under way at either end.
  void observe();
  gpu::DeviceReport observed();

 private:
  int device_;
};

}  // namespace rehearsal::cuda
