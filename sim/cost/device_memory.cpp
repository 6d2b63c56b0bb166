#include "cost/device_memory.hpp"

namespace rehearsal::cost {

Bytes context(const cluster::Gpu& gpu, const models::Framework& framework) {
  return framework.lazy_modules || gpu.eager_context == Bytes{} ? kContext + kLibraries : gpu.eager_context;
}
Bytes device_overhead(Bytes context, int communicators) { return context + kCommunicator * communicators; }

}  // namespace rehearsal::cost
