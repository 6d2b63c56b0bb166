// Constants of the cost model that belong to no GPU, link or framework profile. Each: unit, typical range, source.
// "Fitted" names the published runs (models/README.md, "Where the constants come from"); "assumed" ones reach the
// report. Those of GEMMs and of fused attention stand in gemm.cpp and attention.cpp.
#pragma once

namespace rehearsal::cost {

// --- What a collective takes from the kernels beside it.
// A channel of NCCL is a thread block that has a multiprocessor for itself (24 of 132 in an all-gather on H100). Its
// search finds a channel for each rate of kChannelRate inside a node, or for each NIC between nodes, and takes every
// one twice (NCCL 2.30, src/graph/search.cc and connect.cc): 12 on V100, 24 on A100, and on H100 what is seen there.
inline constexpr double kChannelRate = 20e9;  // bytes/s
inline constexpr double kChannelsEach = 2;
inline constexpr double kMostChannels = 24;
// Channels of a message carry this much each (ncclTopoGetNchannels of the same version).
inline constexpr double kMessageChannelRate = 14e9;  // bytes/s
// Bytes of memory that a rank touches per byte that it sends: a ring that reduces reads the received bytes and its own
// and writes the sum; one that copies reads and writes.
inline constexpr double kMemoryPerReducedByte = 3, kMemoryPerCopiedByte = 2;

// --- The share of a stream triad's memory bandwidth that an optimizer on the host reaches. DeepSpeed's CPU-Adam
// updates 1, 2, 4 and 8 billion parameters on a Grace (72 cores) in .098, .198, .393 and .769 s (blogs/superoffload of
// DeepSpeed): 28 bytes per parameter at 290 GB/s, of 450 that Grace sustains. One family of measurements.
inline constexpr double kHostStepShare = .64;

}  // namespace rehearsal::cost
