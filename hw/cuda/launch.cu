#include "cuda/launch.hpp"

#include <string>

#include "base/error.hpp"
#include "cuda/device_team.cuh"
#include "kernels/passes.hpp"

namespace rehearsal::cuda {
namespace {

// What a kernel may have without asking.
constexpr std::size_t kPlainShared = 48 * 1024;
// Sums of messages run beside kernels of other streams: as many blocks as these multiprocessors hold are enough to keep
// the memory busy (256 blocks of 256 threads with 48 bytes each under way are 3 MB), and leave room for the others.
constexpr int kSummingMultiprocessors = 32;

// Blocks that a multiprocessor shall hold at least: what a kernel says to the compiler about its registers.
template <class Kernel>
constexpr int kResident = [] {
  if constexpr (requires { Kernel::kResident; })
    return Kernel::kResident;
  else
    return 1;
}();

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, kResident<Kernel>) run(const Kernel kernel) {
  extern __shared__ __align__(16) unsigned char memory[];
  DeviceTeam<Kernel> team(*reinterpret_cast<typename DeviceTeam<Kernel>::Memory*>(memory));
  kernel(team);
}

__global__ void spin(std::uint64_t nanoseconds) {
  const auto now = [] {
    std::uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
  };
  const std::uint64_t start = now();
  while (now() - start < nanoseconds) {
  }
}

__global__ void count(std::int64_t* number, std::int64_t more) { *number += more; }

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw MachineError(std::string(what) + ": " + cudaGetErrorString(error));
}

struct Launcher {
  cudaStream_t stream;
  template <class Kernel>
  void operator()(const Kernel& kernel, std::int64_t blocks) const {
    constexpr std::size_t kShared = sizeof(typename DeviceTeam<Kernel>::Memory);
    if constexpr (kShared > kPlainShared)
      check(cudaFuncSetAttribute(run<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, int(kShared)),
            "shared memory of a kernel");
    run<Kernel><<<static_cast<unsigned>(blocks), Kernel::kThreads, kShared, stream>>>(kernel);
    check(cudaGetLastError(), "launch of a kernel");
  }
};

}  // namespace

void launch(const kernels::Call& call, cudaStream_t stream, int multiprocessors) {
  kernels::passes(call, multiprocessors, Launcher{stream});
}

void launch_accumulate(Precision precision, void* to, const void* from, std::int64_t elements, cudaStream_t stream) {
  kernels::Call call;
  call.kernel = {KernelKind::add, {elements}, {}, precision};
  call.operands = {const_cast<void*>(from), to};
  launch(call, stream, kSummingMultiprocessors);
}

void launch_spin(Time duration, cudaStream_t stream) {
  spin<<<1, 1, 0, stream>>>(static_cast<std::uint64_t>(duration.count() / 1000));
  check(cudaGetLastError(), "launch of a kernel");
}

void launch_count(std::int64_t* number, std::int64_t more, cudaStream_t stream) {
  count<<<1, 1, 0, stream>>>(number, more);
  check(cudaGetLastError(), "launch of a kernel");
}

}  // namespace rehearsal::cuda
