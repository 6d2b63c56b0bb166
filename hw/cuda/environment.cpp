#include "cuda/environment.hpp"

#include <cstdlib>

namespace rehearsal::cuda {

void prepare_environment() {
  constexpr int kKeep = 0;
  // A rank has one communicator per channel on one GPU. Without this, NCCL (2.26 and later) requires their kernels to
  // be launched in the same order on all ranks, or may hang; with it, their order on a device is the order of the
  // calls.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", kKeep);
  // Streams share the hardware queues, 8 by default, and wait for each other within one: a receive from a late peer
  // would hold up the kernels queued behind it. 32 is the maximum.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeep);
  // Messages sent in a recording are in memory of the recording, which comes and goes with each replay. NCCL would
  // register that memory for graphs, which is impossible.
  setenv("NCCL_GRAPH_REGISTER", "0", kKeep);
}

}  // namespace rehearsal::cuda
