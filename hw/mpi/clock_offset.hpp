// How far the clocks of several hosts are apart.
#pragma once
#include <mpi.h>

#include "base/units.hpp"

namespace rehearsal::mpi {

// The offset is what this clock shows minus what that of rank 0 shows at the same instant; it is off by at most
// `error`.
struct ClockOffset {
  Time offset, error;
};

// Each rank asks rank 0 for the time again and again; the exchange with the shortest round trip counts, because there
// the answer was read within half of it (Cristian 1989). All ranks of `all` call it. Does not see drift.
ClockOffset measure_clock(MPI_Comm all);

}  // namespace rehearsal::mpi
