#include "cuda/launch.hpp"

#include <atomic>
#include <cstdint>

#include "cuda/check.hpp"
#include "cuda/device_team.cuh"
#include "cuda/driver.hpp"
#include "kernels/run_passes.hpp"

namespace rehearsal::cuda {
namespace {

// Shared memory that a kernel may use without requesting it.
constexpr std::size_t kPlainShared = 48 * 1024;
// Sums of messages run concurrently with kernels of other streams: the blocks that fit on this many SMs keep the memory
// busy (256 blocks of 256 threads with 48 bytes each in flight are 3 MB), and leave SMs for the others.
constexpr int kSummingMultiprocessors = 32;

// Minimum resident blocks per SM, which tells the compiler how many registers a kernel may use.
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

template <class Kernel>
constexpr std::size_t kShared = sizeof(typename DeviceTeam<Kernel>::Memory);

// Once per device: the request costs the host as much as a launch.
template <class Kernel>
void allow_shared() {
  if constexpr (kPlainShared < kShared<Kernel>) {
    static std::atomic<std::uint64_t> allowed{0};
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    const std::uint64_t mine = std::uint64_t{1} << (device % 64);
    if (allowed.load() & mine) return;
    check(cudaFuncSetAttribute(run<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, int(kShared<Kernel>)),
          "shared memory of a kernel");
    allowed |= mine;
  }
}

struct Launcher {
  cudaStream_t stream;
  template <class Kernel>
  void operator()(const Kernel& kernel, std::int64_t blocks) const {
    allow_shared<Kernel>();
    run<Kernel><<<static_cast<unsigned>(blocks), Kernel::kThreads, kShared<Kernel>, stream>>>(kernel);
    check(cudaGetLastError(), "launch of a kernel");
  }
};

template <class Function>
void load_function(Function* kernel) {
  cudaFunction_t function{};
  check(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(kernel)), "cudaGetFuncBySymbol");
  check(DRIVER(cuFuncLoad)(function), "cuFuncLoad");
}

struct Loader {
  template <class Kernel>
  void operator()(const Kernel&, std::int64_t) const {
    load_function(run<Kernel>);
    allow_shared<Kernel>();
  }
};

}  // namespace

void launch(const kernels::Call& call, cudaStream_t stream, int multiprocessors) {
  kernels::passes(call, multiprocessors, Launcher{stream});
}

void load(const kernels::Call& call, int multiprocessors) { kernels::passes(call, multiprocessors, Loader{}); }

void load_helpers() {
  load_function(spin);
  load_function(count);
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
