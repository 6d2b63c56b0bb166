// MPI in this process: initialised once and finalised once, but not finalised after an error.
#pragma once
#include <mpi.h>

#include <memory>

#include "launch/bootstrap.hpp"

namespace rehearsal::mpi {

// Throws MachineError with MPI's own words unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

// Starts MPI; throws MachineError when it was used before in this process: it cannot be started again. The destructor
// finalises it, which waits for all ranks; after fail() the launcher must end them instead.
std::unique_ptr<launch::Bootstrap> open_bootstrap();

// Ranks on this host, or fewer where another host has fewer. Collective.
std::size_t ranks_here();

}  // namespace rehearsal::mpi
