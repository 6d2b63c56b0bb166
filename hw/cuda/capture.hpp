// While a stream is being recorded, this thread may not make calls that wait or allocate: CUDA takes them for mistakes
// in the recording. During the lifetime of this object it may, for calls that have nothing to do with the recording.
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
