// Offsets between the clocks of several hosts.
#pragma once
#include <mpi.h>

#include "base/units.hpp"

namespace rehearsal::mpi {

// This clock minus the clock of rank 0 at the same instant, accurate to `error`.
struct ClockOffset {
  Time offset, error;
};

// Each rank asks rank 0 for the time repeatedly; the exchange with the shortest round trip counts, because it bounds
// the error by half of that (Cristian 1989). Collective over `all`. Called again it shows the drift.
ClockOffset measure_clock(MPI_Comm all);

}  // namespace rehearsal::mpi
