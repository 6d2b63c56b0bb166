#include "cuda/environment.hpp"

#include <cstdlib>
#include <mutex>

namespace rehearsal::cuda {
namespace {

constexpr int kKeep = 0;
constexpr const char* kLaunchOrder = "NCCL_LAUNCH_ORDER_IMPLICIT";

}  // namespace

bool order_is_given() {
  static const bool given = std::getenv(kLaunchOrder) != nullptr;
  return given;
}

void prepare_environment() {
  // Streams share the hardware queues, 8 by default, and wait for each other within one: a receive from a late peer
  // would hold up the kernels queued behind it. 32 is the maximum.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeep);
  // Messages sent in a recording are in memory of the recording, which comes and goes with each replay. NCCL would
  // register that memory for graphs, which is impossible.
  setenv("NCCL_GRAPH_REGISTER", "0", kKeep);
}

void order_launches(bool peers) {
  static std::once_flag first;
  std::call_once(first, [&] {
    order_is_given();
    setenv(kLaunchOrder, peers ? "1" : "0", kKeep);
  });
}

}  // namespace rehearsal::cuda
