// Our matrix product on a chosen instruction set: all of them give the same bytes.
#pragma once
#include "cpu/kernels.hpp"
#include "cpu/vectors.hpp"

namespace rehearsal::cpu {

// `set` is one that this machine has.
void gemm(const GemmCall& call, InstructionSet set);

}  // namespace rehearsal::cpu
