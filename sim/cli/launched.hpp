// The launcher's (mpirun, srun) information about this process, for commands whose ranks do not exchange messages but
// share a file.
#pragma once
#include <optional>

namespace rehearsal::cli {

struct Launched {
  unsigned rank = 0;
  std::optional<unsigned> beside;  // ranks on this machine, including this one
};
// Nothing if no launcher started it.
std::optional<Launched> launched();

// Threads for this process: its share of the available cores.
unsigned share_of_cores();

}  // namespace rehearsal::cli
