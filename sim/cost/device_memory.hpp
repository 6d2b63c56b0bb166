// From live buffers to what a GPU reports.
#pragma once
#include "base/units.hpp"

namespace rehearsal::cost {

struct DeviceMemory {
  Bytes allocated;  // live buffers
  Bytes reserved;   // held by the framework's caching allocator
  Bytes device;     // what nvidia-smi shows: plus context, communicators and libraries
};

// Global factors that reproduce the printed peaks of 1F1B runs (models/README.md, "Memory"): fragmentation 3 %, and
// 0.5 GB for `reserved` or 2 GB for `device`. Assumed alike for every GPU and framework.
DeviceMemory device_memory(Bytes allocated);

}  // namespace rehearsal::cost
