// The launcher's (mpirun, srun) information about this process, for commands whose ranks do not exchange messages but
// share a file.
#pragma once
#include <optional>

namespace rehearsal::cli {

struct Launched {
  unsigned rank = 0, ranks = 1;
  std::optional<unsigned> beside;  // ranks on this machine, including this one
};
// Nothing if no launcher started it.
std::optional<Launched> launched();

// Which of how many equal processes this one is, by ranks and arrays of tasks; without either the only one.
struct Part {
  unsigned index = 0, count = 1;
};
Part launched_part();

// Threads for this process: its share of the available cores.
unsigned share_of_cores();

}  // namespace rehearsal::cli
