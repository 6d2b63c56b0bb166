// Measures one GPU through the interfaces Device and Communicators. From the numbers a profile is made
// (sim/perform/calibrate_gpu.hpp) and the GPU ladder is judged (tools/gpu-check).
//
// A launch is timed by events, from start to start, among equal launches back to back on a stream that never runs
// empty. Operands are finite random numbers that rotate through more memory than a GPU caches. Every time is [p10, p50,
// p90] over samples; a short launch is repeated within a sample.
//
// With several parts the SMs are partitioned, all parts do the same work at the same time, and only samples taken while
// all parts are busy count: what virtual stages see (virtual_stages.cpp).
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

// A kernel to be timed. Held out: measured to test predictions, never fitted to.
struct ProbedKernel {
  Kernel kernel;
  bool held_out = false;
};
// The default kernels to time: matrix products of linear layers in fp32, tf32, bf16 and fp8, all other kernels in fp32
// and bf16. A third of the shapes of each kind is held out.
std::vector<ProbedKernel> kernel_grid(bool quick);

struct ProbeOptions {
  bool quick = false;     // fewer samples, no warm-up for clocks to settle
  std::size_t parts = 1;  // equal partitions of the SMs
  std::vector<ProbedKernel> kernels;
  Bytes arena{std::int64_t{3} << 30};         // memory for all operands
  Bytes rotation{std::int64_t{1} << 29};      // operands of one kernel rotate through this much
  Bytes largest_copy{std::int64_t{1} << 28};  // over the host link and within the device
  Bytes beside_copy{std::int64_t{1} << 26};   // copies concurrent with matrix products
  std::int64_t gemm = 4096;                   // m = n = k of products beside copies, and in partitions
  Time budget = seconds(200);                 // kernels not timed by then are skipped and listed
  Time patience = seconds(20);                // for making a communicator
  Time heat{};                                // matrix products run this long before all kernels: a cold GPU is faster
  // Hears what is measured, and how many of how many; 0: one thing.
  std::function<void(const std::string& what, std::size_t done, std::size_t of)> progress{};
  void say(const std::string& what, std::size_t done = 0, std::size_t of = 0) const {
    if (progress) progress(what, done, of);
  }
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
  LaunchTime alone = {}, busy = {};  // while the other parts idle; while they compute the same
};
// Slowdown of two kinds of concurrent work: time beside the other / time alone.
struct Interference {
  double gemm = 0, copy = 0;  // 0: not measured
};
struct NcclTime {
  Bytes size;
  // Per operation, recorded several at a time so that host time drops out: an all-reduce with one member, out of place
  // (a copy) and in place (a no-op); a send to itself and its receive in one group.
  LaunchTime out_of_place = {}, in_place = {}, to_itself = {};
  LaunchTime called = {};  // `to_itself` launched one by one from the host instead
};
// A matrix product and an activation that reads its result, which a cache may still hold.
struct PairTime {
  Kernel product, activation;
  LaunchTime first = {}, second = {}, both = {};  // first, second: each alone with cold operands; both: back to back
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
  int multiprocessors = 0;  // per part
  bool settled = false;     // matrix products ran long enough before each sample for clocks to settle
  std::vector<KernelTime> kernels;
  std::vector<std::string> left_out;  // "linear 1 x 2 x 3 in fp8: why"

  // One part: the whole GPU.
  std::vector<SizeTime> memory_bound;  // the `add` kernel, by bytes read and written
  std::vector<SizeTime> device_copy, to_device, to_host;
  double duplex = 0;  // rate of both directions at once / sum of the rates alone
  Interference with_host_copy, with_device_copy;
  std::optional<LaunchTime> launch_host, launch_stream, launch_graph;
  std::optional<LaunchTime> between_tasks, between_tasks_graph;  // cost of the two events around a task
  std::vector<PartTime> partitions;
  std::vector<PairTime> pairs;
  std::vector<NcclTime> nccl;

  // Several parts: messages from one part to the next, rings of some parts and of all; device_copy is per part.
  std::vector<SizeTime> message;  // from before its copy until the receiving stream goes on
  std::vector<RingTime> rings;
};

// Opens the first GPU, anew for each partitioning. Throws MachineError.
Probe measure(const Platform& platform, const ProbeOptions& options);
// Asks NCCL for two ranks on one GPU: its refusal in its words, or nothing when it accepts. Returns after about
// `patience` whenever NCCL itself returns.
std::optional<std::string> two_ranks_on_one_gpu(const Platform& platform, Time patience);

// Interface of a backend that can measure its GPU; obtained by dynamic_cast.
class Prober {
 public:
  virtual ~Prober() = default;
  virtual DeviceFacts gpu_facts() = 0;  // of the first GPU
  virtual Probe measure_gpu(const ProbeOptions& options) = 0;
  virtual std::optional<std::string> refuse_two_ranks(Time patience) = 0;
};

}  // namespace rehearsal::gpu
