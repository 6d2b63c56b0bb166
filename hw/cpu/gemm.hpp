// Our matrix product on a given instruction set: all of them give the same bytes.
#pragma once
#include "cpu/kernels.hpp"
#include "cpu/vectors.hpp"

namespace rehearsal::cpu {

// `set` must be available on this machine.
void gemm(const GemmCall& call, InstructionSet set);

}  // namespace rehearsal::cpu
