// What this machine permits processes to do.
#pragma once

namespace rehearsal::launch {

// Cores that this process may use.
unsigned cores();

// Whether one process may read another's memory (process_vm_readv), as MPI libraries do for large messages: if not, a
// message moves only while its sender is inside MPI.
bool single_copy_works();

}  // namespace rehearsal::launch
