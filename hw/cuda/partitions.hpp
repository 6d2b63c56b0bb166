// Partitions of a GPU's multiprocessors: green contexts, which the driver makes. The driver's functions are looked up
// while running: a module linked with libcuda would not even load on a machine without a driver.
//
// Work of the primary context runs on the multiprocessors of all partitions and disturbs them, so whoever partitions
// puts all kernels into partitions. Partitions share the second-level cache and the memory.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace rehearsal::cuda {

class Partitions {
 public:
  // Of equal size, of the device `index`, whose primary context is current. Throws MachineError when the GPU does not
  // give that many, and says how many it gives.
  Partitions(int index, std::size_t parts);
  ~Partitions();  // after their streams
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;

  std::size_t count() const { return contexts_.size(); }
  int multiprocessors() const { return multiprocessors_; }  // of each
  cudaStream_t make_stream(std::size_t part) const;

 private:
  std::vector<CUgreenCtx> contexts_;
  int multiprocessors_ = 0;
};

}  // namespace rehearsal::cuda
