#include "cost/device_memory.hpp"

namespace rehearsal::cost {

DeviceMemory device_memory(Bytes allocated) {
  constexpr double kFragmentation = 1.03;
  const double held = double(allocated.count()) * kFragmentation;
  return {allocated, bytes(held + .5e9), bytes(held + 2e9)};
}

}  // namespace rehearsal::cost
