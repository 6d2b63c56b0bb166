// A kernel of base/kernels.hpp ready to run: one description for GPU and host, so that both share the source of each
// kernel (team.hpp). Plain data, copied by value into device code.
#pragma once
#include <array>
#include <cstdint>

#include "base/kernels.hpp"

namespace rehearsal::kernels {

// Rates of the optimizers; equations: optimizer.hpp.
struct Rates {
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
};

struct Range {
  std::int64_t begin = 0, end = 0;
};

// Doubles for grid-wide reductions between their two passes, and so the largest number of their blocks.
inline constexpr std::int64_t kScratch = 1024;

// Pointers are to memory where the kernel runs. Operands point at their first element (offsets are applied), in the
// order of the table of KernelKind; operand_precision() gives their storage type.
struct Call {
  Kernel kernel;
  std::array<void*, kMostOperands> operands{};
  // Index of the rank in its tensor group and among its replicas; index of this part of its sequences: that of the rank
  // in its context group, or of the piece.
  std::int64_t tensor = 0, data = 0, context = 0;

  // The micro-batch: T tokens and targets, or T x width real values.
  const std::int32_t *tokens = nullptr, *targets = nullptr;
  const float *rows = nullptr, *row_targets = nullptr;
  const std::int32_t* documents = nullptr;  // where the document of each position of its sequences begins, if several

  // Optimizer kernels. `steps`: number taken before the one taken or undone; read when the kernel runs, so that a
  // recorded sequence of kernels can be replayed. The squares of the gradient entries in the counted ranges (of the e
  // elements) are added to `squared_gradients` unless it is null; there are few ranges.
  Rates rates;
  const std::int64_t* steps = nullptr;
  double* squared_gradients = nullptr;
  const Range* counted = nullptr;
  std::int64_t ranges = 0;

  double* scratch = nullptr;  // kScratch doubles reserved for this call
};

}  // namespace rehearsal::kernels
