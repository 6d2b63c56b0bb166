// How long a fused attention kernel takes alone, by implementation. Equation and fits: models/README.md, section 5.
#pragma once
#include "base/kernels.hpp"
#include "cluster/cluster.hpp"
#include "models/transformer.hpp"

namespace rehearsal::cost {

// The kernel that runs: the one asked for where the GPU has it, else FlashAttention-2.
models::AttentionKernel attention_kernel(const cluster::Gpu& gpu, models::AttentionKernel asked);

// Seconds of one kernel, without gaps. Throws UserError when the GPU has no fused attention at all.
double attention_time(const cluster::Gpu& gpu, const FusedAttention& shape, models::AttentionKernel kernel);

}  // namespace rehearsal::cost
