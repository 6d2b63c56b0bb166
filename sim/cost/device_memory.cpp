#include "cost/device_memory.hpp"

namespace rehearsal::cost {

Bytes device_overhead(int communicators) { return kContext + kLibraries + kCommunicator * communicators; }

}  // namespace rehearsal::cost
