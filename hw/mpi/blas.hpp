// Matrix products by OpenBLAS, where it is installed.
#pragma once
#include "cpu/kernels.hpp"

namespace rehearsal::mpi {

struct Gemm {
  cpu::GemmFunction function = cpu::gemm;
  const char* name = "own kernel";
};

// Loaded when it is asked for, not linked: its build with threads starts one per core when it is loaded, which only a
// rank may do, and there it is told to use one. (Debian's serial build must not be called by two threads at once; a
// rank has one that computes.)
Gemm fastest_gemm();

}  // namespace rehearsal::mpi
