// How long a matrix product takes alone: output tiles in waves over the SMs, split-K, memory traffic. Equation and
// fits: models/README.md, section 5.
#pragma once
#include "base/kernels.hpp"
#include "cluster/cluster.hpp"

namespace rehearsal::cost {

// Seconds of one product, without the gap to the next kernel. `clock`: of the rate in short bursts; training runs at
// Gpu::sustained_clock, a benchmark of few repetitions at 1. `speedup`: of the rate of `counted_as`, which names the
// peak (fp8 is measured against bf16); `limited_speedup`: the same of the rate that power allows, 0 for as much. A
// weight gradient divides by its own rate, down to the time of its traffic. Where rows of features begin (on 16 bytes
// or not) has no price yet: such products stay on the tensor cores (NVIDIA, Matrix Multiplication Background User's
// Guide, "Tensor Core Requirements") at .37 to .2 of the rate of others on one H100 (sim/design/measured-gpus.md);
// tokens are no row.
double gemm_time(const cluster::Gpu& gpu, const Gemm& shape, Precision counted_as, double clock, double speedup = 1,
                 double limited_speedup = 0);

// Output tiles of the largest size.
std::int64_t largest_tiles(const Gemm& shape);

}  // namespace rehearsal::cost
