// A block of threads on a GPU: implements the interface of kernels/team.hpp, with a GPU thread per thread of a phase.
#pragma once
#include "kernels/team.hpp"

namespace rehearsal::cuda {

template <class Kernel>
class DeviceTeam {
 public:
  static constexpr int kThreads = Kernel::kThreads, kWarps = kThreads / kernels::kWarp;
  using Shared = typename Kernel::Shared;
  struct Memory {
    Shared shared;
    double warps[kWarps];  // one number per warp during a reduction
  };

  template <class X>
  class LocalOf {
   public:
    __device__ __forceinline__ explicit LocalOf(const DeviceTeam&) {}
    __device__ __forceinline__ X& operator()(int) { return value_; }

   private:
    X value_;
  };

  __device__ __forceinline__ explicit DeviceTeam(Memory& memory) : shared(memory.shared), warps_(memory.warps) {}

  __device__ __forceinline__ std::int64_t block() const { return blockIdx.x; }
  __device__ __forceinline__ std::int64_t blocks() const { return gridDim.x; }

  template <class Body>
  __device__ __forceinline__ void each(const Body& body) {
    body(int(threadIdx.x));
    __syncthreads();
  }
  template <class Body>
  __device__ __forceinline__ void own(const Body& body) {
    body(int(threadIdx.x));
  }

  template <class X>
  __device__ __forceinline__ X sum(LocalOf<X>& x) {
    return reduce(x(0), kernels::Sum{});
  }
  template <class X>
  __device__ __forceinline__ X largest(LocalOf<X>& x) {
    return reduce(x(0), kernels::Largest{});
  }
  template <int kGroup, int N>
  __device__ __forceinline__ void sum_of(LocalOf<kernels::Floats<N>>& x) {
    butterfly<kGroup>(x(0), kernels::Sum{});
  }
  template <int kGroup, int N>
  __device__ __forceinline__ void largest_of(LocalOf<kernels::Floats<N>>& x) {
    butterfly<kGroup>(x(0), kernels::Largest{});
  }

  Shared& shared;

 private:
  static constexpr unsigned kAll = 0xffffffffu;

  // Numbers pass through shared memory as doubles, which hold each of our types exactly.
  template <class X, class Operation>
  __device__ __forceinline__ X reduce(X x, Operation operation) {
#pragma unroll
    for (int distance = kernels::kWarp / 2; distance > 0; distance /= 2)
      x = operation(x, __shfl_xor_sync(kAll, x, distance));
    if (threadIdx.x % kernels::kWarp == 0) warps_[threadIdx.x / kernels::kWarp] = double(x);
    __syncthreads();
    X all = X(warps_[0]);
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) all = operation(all, X(warps_[warp]));
    __syncthreads();
    return all;
  }
  template <int kGroup, int N, class Operation>
  __device__ __forceinline__ void butterfly(kernels::Floats<N>& x, Operation operation) {
#pragma unroll
    for (int distance = kGroup / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = operation(x[i], __shfl_xor_sync(kAll, x[i], distance));
    }
  }

  double* warps_;
};

}  // namespace rehearsal::cuda
