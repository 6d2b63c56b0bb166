// The kernels of base/kernels.hpp in plain C++, fp32. Each is one function of its operands; what they compute is said
// in the table of KernelKind, with the equations beside the code.
#pragma once
#include <cstdint>
#include <span>

#include "backend/backend.hpp"
#include "base/kernels.hpp"

namespace rehearsal::cpu {

// The synthetic data of one micro-batch of one data-parallel rank.
struct Batch {
  std::span<const std::int32_t> tokens, targets;  // T each; empty for real-valued rows
  std::span<const float> rows, row_targets;       // T x width
};

// What a kernel needs beyond its operands: the place of the rank, the data, the state of the optimizer.
struct Surroundings {
  std::int64_t tensor = 0, tensor_ranks = 1;  // index in the tensor-parallel group
  std::int64_t data = 0;                      // index in the data-parallel group: which shard is the own one
  Batch batch;
  const backend::Learning* learning = nullptr;
  std::int64_t step = 0;                // optimizer steps taken before this one
  double* squared_gradients = nullptr;  // optimizer kernels add the squares of what they consume, when not null
};

// c = alpha-free GEMM, row major: c[m,n] (+)= a[m,k] b; b is [n,k] when transposed_b. a is [k,m] when transposed_a.
struct GemmCall {
  std::int64_t m, n, k;
  const float* a;
  const float* b;
  float* c;
  bool transposed_a = false, transposed_b = false, accumulate = false;
};
using GemmFunction = void (*)(const GemmCall&);
void gemm(const GemmCall& call);  // ours: blocked, vectorised, single-threaded; deterministic

// `operands` point at the first element of each (offsets applied), in the order of the table.
void perform(const Kernel& kernel, std::span<float* const> operands, const Surroundings& around,
             GemmFunction gemm = cpu::gemm);

}  // namespace rehearsal::cpu
