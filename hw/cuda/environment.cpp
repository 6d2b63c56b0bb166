#include "cuda/environment.hpp"

#include <cstdlib>

namespace rehearsal::cuda {

void prepare_environment() {
  constexpr int kKeep = 0;
  // A rank has a communicator per channel on one GPU. Without this NCCL (2.26 and later) demands that their kernels are
  // launched in one order on all ranks or may hang; with it their order on a device is that of the calls.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", kKeep);
  // Streams share the hardware's queues, 8 unless told otherwise, and wait for each other within one: a receive whose
  // peer is late would hold back the kernels behind it. 32 is the most.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeep);
  // What a recording sends lies in memory of the recording, which NCCL would register for it, and which cannot be
  // registered: it comes and goes with each replay.
  setenv("NCCL_GRAPH_REGISTER", "0", kKeep);
}

}  // namespace rehearsal::cuda
