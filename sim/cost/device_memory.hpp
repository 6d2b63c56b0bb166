// GPU memory outside of what a framework reserves: nvidia-smi shows it and torch does not count it.
#pragma once
#include "base/units.hpp"
#include "cluster/cluster.hpp"
#include "models/transformer.hpp"

namespace rehearsal::cost {

// The driver's context of one process. About 0.3 to 0.5 GB on data-centre GPUs; assumed alike for all.
inline constexpr Bytes kContext{500'000'000};
// Code and handles of the framework's kernels, cuBLAS, cuDNN and NCCL. Assumed.
inline constexpr Bytes kLibraries{300'000'000};
// An NCCL communicator: a send and a receive buffer per channel, 4 MiB each for the simple protocol (NCCL_BUFFSIZE) and
// about half as much for LL and LL128; 16 channels: 2 x 16 x 6 MiB. The number of channels is assumed.
inline constexpr Bytes kCommunicator{2 * 16 * 6 << 20};

// The size of context and libraries; without lazy loading, as measured on the GPU.
Bytes context(const cluster::Gpu& gpu, const models::Framework& framework);
Bytes device_overhead(Bytes context, int communicators);

}  // namespace rehearsal::cost
