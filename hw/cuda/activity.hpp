// A second source of times: the records that NVIDIA's profiler library (CUPTI) makes of kernels and copies. It is
// loaded at run time, so it may be missing; Activity::unavailable says so.
#pragma once
#include "gpu/device.hpp"

namespace rehearsal::cuda {

class Profiler {
 public:
  explicit Profiler(int device) : device_(device) {}
  // Records this device's activity until observed(); nothing may be in progress at either end.
  void observe();
  gpu::DeviceReport observed();

 private:
  int device_;
};

}  // namespace rehearsal::cuda
