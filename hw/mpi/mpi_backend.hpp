// Performs a graph with one process per rank, all of one MPI job: real messages and collectives, compute timed or real.
#pragma once
#include <memory>

#include "backend/backend.hpp"

namespace rehearsal::mpi {

// For a process that is a rank (launch/launch.hpp starts them). prepare() starts MPI and throws MachineError when the
// job's number of ranks differs from the graph's, or ranks hold different graphs. run() returns the whole timeline at
// rank 0 of a job that the user started, and an empty one elsewhere: ranks with a parent publish to it. Sessions may
// outlive the backend.
std::unique_ptr<backend::Backend> make_mpi();

}  // namespace rehearsal::mpi
