// Partitions of a GPU's SMs: green contexts of the driver. The driver's functions are looked up at run time: a module
// linked with libcuda would not even load on a machine without a driver.
//
// Work of the primary context runs on the SMs of all partitions and disturbs them, so with partitions all kernels must
// run in them. Partitions share the L2 cache and the memory.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace rehearsal::cuda {

class Partitions {
 public:
  // Equal partitions of device `index`, whose primary context is current. Throws MachineError, with the number
  // available, when the GPU does not provide that many.
  Partitions(int index, std::size_t parts);
  ~Partitions();  // only after their streams are destroyed
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;

  std::size_t count() const { return contexts_.size(); }
  int multiprocessors() const { return multiprocessors_; }  // of each partition
  cudaStream_t make_stream(std::size_t part) const;

 private:
  std::vector<CUgreenCtx> contexts_;
  int multiprocessors_ = 0;
};

}  // namespace rehearsal::cuda
