// Matrix products by OpenBLAS, if installed.
#pragma once
#include "cpu/kernels.hpp"

namespace rehearsal::mpi {

struct Gemm {
  cpu::GemmFunction function = cpu::gemm;
  const char* name = "own kernel";
};

// Loaded on demand, not linked: its threaded build starts one thread per core when loaded, which only a rank may do,
// and there it is told to use one. (Debian's serial build must not be called by two threads at once; a rank has one
// computing thread.)
Gemm fastest_gemm();

}  // namespace rehearsal::mpi
