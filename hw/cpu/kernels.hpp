// The kernels of base/kernels.hpp in plain C++, in fp32; for bf16 the host runs those of hw/kernels. Each is one
// function of its operands; the table of KernelKind defines them, and equations are beside the code.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "base/kernels.hpp"
#include "kernels/call.hpp"
#include "kernels/product.hpp"

namespace rehearsal::cpu {

// The synthetic data of one micro-batch of one data-parallel rank.
struct Batch {
  std::span<const std::int32_t> tokens{}, targets{};  // T each; empty for real-valued rows
  std::span<const float> rows{}, row_targets{};       // T x width
  // Of every position of the whole sequences, not only of those here: where its document begins in its sequence.
  std::span<const std::int32_t> documents{};
};

using kernels::Range;

// What a kernel needs beyond its operands: the rank's place, the data, the optimizer's state.
struct KernelContext {
  std::int64_t tensor = 0;   // index in the tensor-parallel group
  std::int64_t data = 0;     // index among the replicas (Replicas): selects the own shard
  std::int64_t context = 0;  // part of the sequences: index in the context group, or of the piece
  Batch batch{};
  const backend::TrainingData* learning = nullptr;  // rates and betas, for the optimizer kernels
  std::int64_t step = 0;                            // optimizer steps taken before the one taken or undone
  // Unless null, optimizer kernels add to it the squares of the gradient entries in `counted` (of their e elements).
  // Only one of several ranks that hold the same parameters counts them: the caller knows which.
  std::span<const Range> counted{};
  double* squared_gradients = nullptr;
};

using GemmCall = kernels::Product;
using GemmFunction = kernels::ProductFunction;
void gemm(const GemmCall& call);  // ours: blocked, vectorised, single-threaded; deterministic

// Slots for kernels with a slots operand (slots_operand), good enough for timing: T k of them, all different as far as
// the number of slots allows.
std::vector<std::int32_t> slots_in_turn(const Kernel& kernel);

// `operands` point at their first element (offsets applied), in the order of the table.
void perform(const Kernel& kernel, std::span<float* const> operands, const KernelContext& around,
             GemmFunction gemm = cpu::gemm);

}  // namespace rehearsal::cpu
