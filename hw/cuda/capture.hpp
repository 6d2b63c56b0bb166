// While a stream is being recorded, this thread may make no call that waits or allocates (such a call is a mistake in
// what is recorded); except where this object says that the call has nothing to do with the recording.
#pragma once
#include <cuda_runtime_api.h>

namespace rehearsal::cuda {

class AnyCallAllowed {
 public:
  AnyCallAllowed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~AnyCallAllowed() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  AnyCallAllowed(const AnyCallAllowed&) = delete;
  AnyCallAllowed& operator=(const AnyCallAllowed&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace rehearsal::cuda
