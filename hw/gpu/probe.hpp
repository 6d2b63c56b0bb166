// Measures one GPU over the tables of a device and a communicator: plain numbers, from which a profile is made
// (sim/perform/calibrate_gpu.hpp) and the GPU ladder is judged (tools/gpu-check).
//
// A time is that of one launch among equal ones that follow each other on a stream that is never empty, from start to
// start, by events. Operands are random numbers, rotate through more memory than a GPU caches, and stay finite. Every
// time is [p10, p50, p90] of samples; a short launch is repeated within a sample.
//
// With several parts the multiprocessors are shared out, every part does the same at the same time, and all samples
// count while all parts are busy: what virtual stages see (virtual_stages.cpp).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu/platform.hpp"

namespace rehearsal::gpu {

struct LaunchTime {
  Time p10, p50, p90;
};

// A kernel that is to be timed. Held out: measured to be predicted, never to be fitted to.
struct ProbedKernel {
  Kernel kernel;
  bool held_out = false;
};
// What is timed when nobody asks for particular shapes: matrix products of linear layers in fp32, tf32, bf16 and fp8,
// all other kernels in fp32 and bf16. A third of the shapes of each kind is held out.
std::vector<ProbedKernel> kernel_grid(bool quick);

struct ProbeOptions {
  bool quick = false;     // fewer samples, no time for clocks to settle
  std::size_t parts = 1;  // of the multiprocessors
  std::vector<ProbedKernel> kernels;
  Bytes arena{std::int64_t{3} << 30};         // for all operands
  Bytes rotation{std::int64_t{1} << 29};      // operands of one kernel move through so much
  Bytes largest_copy{std::int64_t{1} << 28};  // of the host link and within the device
  Bytes beside_copy{std::int64_t{1} << 26};   // copies beside matrix products
  std::int64_t gemm = 4096;                   // m = n = k of products beside copies, and in partitions
  Time budget = seconds(200);                 // then kernels that are left are skipped, and listed as such
  Time patience = seconds(20);                // for a communicator
  Time heat{};                                // of matrix products before all kernels: a cold GPU is faster
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

struct KernelTime {
  Kernel kernel;
  LaunchTime time;
  bool held_out = false;
};
struct SizeTime {
  Bytes size;
  LaunchTime time;
  bool held_out = false;
};
// A matrix product in one of `parts` equal partitions.
struct PartTime {
  std::size_t parts = 1;
  int multiprocessors = 0;
  Kernel kernel;
  LaunchTime alone = {}, busy = {};  // the other parts idle; the other parts computing the same
};
// How two kinds of work that run at the same time slow each other down: time beside the other / time alone.
struct Interference {
  double gemm = 0, copy = 0;  // 0: not measured
};
struct NcclTime {
  Bytes size;
  // Each of several in a recording, so without the host: an all-reduce of one member, which is a copy, and nothing in
  // place; a send and its receive in one group.
  LaunchTime out_of_place = {}, in_place = {}, to_itself = {};
  LaunchTime called = {};  // the last again, called one by one
};
// A product and an activation of its result, which a cache may still hold.
struct PairTime {
  Kernel product, activation;
  LaunchTime first = {}, second = {}, both = {};  // alone on what no cache holds; one after the other
};
struct RingTime {
  std::size_t members = 0;
  CollectiveKind kind{};
  Bytes size;  // of the whole array
  LaunchTime time;
};

struct Probe {
  DeviceFacts device;
  std::size_t parts = 1;
  int multiprocessors = 0;  // of a part
  bool settled = false;     // matrix products ran long enough before each sample for clocks to settle
  std::vector<KernelTime> kernels;
  std::vector<std::string> left_out;  // "linear 1 x 2 x 3 in fp8: why"

  // One part: the whole GPU.
  std::vector<SizeTime> memory_bound;  // the `add` kernel, by bytes read and written
  std::vector<SizeTime> device_copy, to_device, to_host;
  double duplex = 0;  // rate of both directions at once over the sum of each alone
  Interference with_host_copy, with_device_copy;
  std::optional<LaunchTime> launch_host, launch_stream, launch_graph;
  std::optional<LaunchTime> between_tasks, between_tasks_graph;  // what the two events around a task cost
  std::vector<PartTime> partitions;
  std::vector<PairTime> pairs;
  std::vector<NcclTime> nccl;

  // Several parts: messages from one to the next, rings of some of them and of all; device_copy is of one part.
  std::vector<SizeTime> message;  // from before its copy until the other stream goes on
  std::vector<RingTime> rings;
};

// Opens the first GPU, as often as it must be partitioned anew. Throws MachineError.
Probe measure(const Platform& platform, const ProbeOptions& options);
// What NCCL says when two ranks ask for one GPU; nothing when it agrees. Comes back after about `patience` in any case
// in which NCCL itself does.
std::optional<std::string> two_ranks_on_one_gpu(const Platform& platform, Time patience);

// A backend that can be asked: dynamic_cast it.
class Prober {
 public:
  virtual ~Prober() = default;
  virtual DeviceFacts gpu_facts() = 0;  // of the first GPU
  virtual Probe measure_gpu(const ProbeOptions& options) = 0;
  virtual std::optional<std::string> refuse_two_ranks(Time patience) = 0;
};

}  // namespace rehearsal::gpu
