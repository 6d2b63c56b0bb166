// A kernel of base/kernels.hpp about to run: the same description for a GPU and for the host, so that one source of
// each kernel serves both (team.hpp). Plain data, copied by value into device code.
#pragma once
#include <array>
#include <cstdint>

#include "base/kernels.hpp"

namespace rehearsal::kernels {

// Of the optimizers; see cpu/optimizer.cpp for the equations.
struct Rates {
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
};

struct Range {
  std::int64_t begin = 0, end = 0;
};

// Doubles that reductions over a whole grid use between their two passes: as many as they may have blocks.
inline constexpr std::int64_t kScratch = 1024;

// Every pointer is to memory of the place where the kernel runs. Operands point at their first element (offsets are
// applied), in the order of the table of KernelKind; how they are stored says operand_precision().
struct Call {
  Kernel kernel;
  std::array<void*, kMostOperands> operands{};
  // Place of the rank in its tensor group and among its replicas; which part of its sequences this is: its place in its
  // context group, or the piece.
  std::int64_t tensor = 0, data = 0, context = 0;

  // The micro-batch: T tokens and targets, or T x width real values.
  const std::int32_t *tokens = nullptr, *targets = nullptr;
  const float *rows = nullptr, *row_targets = nullptr;

  // Optimizer kernels. `steps`: taken before the one that is taken or undone; read when the kernel runs, so that a
  // recorded sequence of kernels may be repeated. The squares of the gradient entries in the counted ranges (of the e
  // elements) are added to `squared_gradients` unless that is null; there are few ranges.
  Rates rates;
  const std::int64_t* steps = nullptr;
  double* squared_gradients = nullptr;
  const Range* counted = nullptr;
  std::int64_t ranges = 0;

  double* scratch = nullptr;  // kScratch doubles that nobody else uses meanwhile
};

}  // namespace rehearsal::kernels
