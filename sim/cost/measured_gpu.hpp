// A measured GPU in the place of a GPU file's constants.
#pragma once
#include <optional>
#include <string>

#include "cluster/cluster.hpp"
#include "cost/gpu_times.hpp"

namespace rehearsal::cost {

const char* name(models::AttentionKernel kernel);  // as files write it: "flash-2"
using rehearsal::name;                             // of kernels and precisions; this one would hide them

// Evidence against the measured GPU being of this type, as "has 108 multiprocessors, not 132"; empty if there is none.
// A type's name begins with a word of the driver's: h200-sxm, "NVIDIA H200". One given inline has no name.
std::string mismatch(const GpuIdentity& measured, const cluster::Gpu& type);

// The GPU with this precision's GEMM constants in the place of its own.
cluster::Gpu with_gemm(cluster::Gpu gpu, const GpuTimes& times, Precision precision);

// The same with this rate of an attention kernel.
cluster::Gpu with_attention(cluster::Gpu gpu, models::AttentionKernel kernel, FlopRate rate);

// The precision whose constants replace those that were not measured: the first measured of bf16, fp16, fp32, tf32.
std::optional<Precision> main_precision(const GpuTimes& times);

// The GPU with every constant that was measured. Such keys are no longer assumed; `source` says where they come from.
cluster::Gpu measured(cluster::Gpu gpu, const GpuTimes& times, const std::string& source);

// Seconds of one launch, gap included; nothing where that was not measured. A shape that was measured (and not held
// out) takes its median, any other one the fit. Of a matrix
// product `gpu` is the result of with_gemm(measured()), of attention that of measured().
std::optional<double> measured_gemm(const GpuTimes& times, const cluster::Gpu& gpu, const Gemm& shape);
std::optional<double> measured_attention(const GpuTimes& times, const cluster::Gpu& gpu, const FusedAttention& shape,
                                         models::AttentionKernel kernel);
// `kernels` launches over which the traffic is spread evenly; `factor` on what they move.
std::optional<double> measured_traffic(const GpuTimes& times, const MemoryBound& shape, double factor);

// "matrix products in bf16 (held out: median 2.9 %, p90 8.4 %), memory-bound kernels": what was measured.
std::string summary(const GpuTimes& times);

}  // namespace rehearsal::cost
