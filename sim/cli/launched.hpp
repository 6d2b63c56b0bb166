// What a launcher (mpirun, srun) has told this process about itself, for commands whose ranks need no messages: they
// meet in a file.
#pragma once
#include <optional>

namespace rehearsal::cli {

struct Launched {
  unsigned rank = 0;
  std::optional<unsigned> beside;  // ranks on this machine, itself among them
};
// Nothing where nobody launched it.
std::optional<Launched> launched();

// Threads for this process: its share of the cores that it may use.
unsigned share_of_cores();

}  // namespace rehearsal::cli
