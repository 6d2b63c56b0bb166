// What was measured of one GPU: times by shape, and what was fitted to them. A part of a Profile; read and written by
// sim/scenario; fitted by gpu_fit.hpp; put in the place of a GPU file's constants by measured_gpu.hpp.
//
// Every section may be missing: then it was not measured, and what was assumed stays. A time is what one launch takes
// of a stream in which equal launches follow each other, from start to start: the gap between kernels is part of it,
// and prices add none. Cold caches, random data (zeros are up to a sixth faster: they cost less power).
//
// A sample that is held out is never fitted, and never a price: it is there to be compared with.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/kernels.hpp"
#include "cost/kernel_fit.hpp"
#include "models/transformer.hpp"

namespace rehearsal::cost {

// Empty or 0: not known. The first three must be.
struct GpuIdentity {
  std::string name;        // as its driver says: "NVIDIA H200"
  std::string capability;  // compute capability: "9.0"
  std::int64_t multiprocessors = 0;
  Bytes memory;                                   // all of it
  std::string driver, runtime;                    // versions; of the libraries: Profile::libraries ("cublas", "nccl")
  double sm_clock_mhz = 0, memory_clock_mhz = 0;  // while it measured
  double power_limit_w = 0;
};

// |predicted / measured - 1| over samples.
struct SampleErrors {
  std::int64_t samples = 0;
  double median = 0, p90 = 0;
};
struct FitErrors {
  SampleErrors fitted, held_out;
};

struct GemmSample {
  Gemm shape;  // all of a map entry have its precision
  Quantiles time;
  bool held_out = false;
};
// The constants of gemm.hpp for one precision. `rate` is the peak times the efficiency.
struct GemmFit {
  FlopRate rate;
  double small_tile_loss = 0;
  Time overhead, tile_overhead;
  double weight_gradient_rate = 1;
  // Keys of cluster::Gpu that the samples could not determine: they keep the GPU file's value.
  std::vector<std::string> kept;
  FitErrors error;
};
struct GemmTimes {
  std::vector<GemmSample> samples;
  GemmFit fit;
};

struct AttentionSample {
  FusedAttention shape;
  Quantiles time;
  bool held_out = false;
};
struct AttentionTimes {
  std::vector<AttentionSample> samples;
  FlopRate rate;  // as cluster::Gpu::fused_attention_rate
  FitErrors error;
};

struct SizeSample {
  Bytes size;
  Quantiles time;
  bool held_out = false;
};
// t = call + byte n + far_byte max(0, n - knee). Copies over a link have no knee.
struct SizeFit {
  double call = 0, byte = 0, far_byte = 0;  // seconds
  Bytes knee;
  FitErrors error;
  double time(Bytes size) const;
  Bandwidth far_rate() const;  // of ever larger sizes
};
struct SizeTimes {
  std::vector<SizeSample> samples;
  SizeFit fit;
};

// Pinned memory of the host. Factors: 0 = not measured.
struct HostLink {
  SizeTimes to_device, to_host;
  double duplex = 0;            // rate of both directions at once over the sum of each alone
  double copy_beside_gemm = 0;  // time of a copy beside a GEMM over its time alone
  double gemm_beside_copy = 0;  // and of the GEMM
};

// Of an empty kernel.
struct LaunchTimes {
  std::optional<Quantiles> host;    // the call, on the host
  std::optional<Quantiles> stream;  // from start to start in a stream that is never empty
  std::optional<Quantiles> graph;   // the same as nodes of a graph, replayed
};

// One GEMM on a part of the multiprocessors.
struct PartitionTime {
  std::int64_t multiprocessors = 0;
  Gemm shape;
  Quantiles alone, busy;  // the others idle; the others computing the same
};

struct GpuTimes {
  GpuIdentity gpu;
  // Whether matrix products were timed after the clock had settled under their load, as in training, or in bursts so
  // short that power did not limit it yet: then the GPU file's sustained_clock still applies.
  bool settled_clock = true;
  std::map<Precision, GemmTimes> gemm;
  std::map<models::AttentionKernel, AttentionTimes> attention;
  std::optional<SizeTimes> memory_bound;  // by bytes read and written by one kernel
  std::optional<HostLink> host_link;      // by bytes copied
  std::optional<SizeTimes> device_copy;   // by bytes copied: each is read and written
  LaunchTimes launch;
  std::vector<PartitionTime> partitions;  // ascending multiprocessors
};

}  // namespace rehearsal::cost
