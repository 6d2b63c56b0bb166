// What this machine lets processes do.
#pragma once

namespace rehearsal::launch {

// Cores that this process may use.
unsigned cores();

// Whether one process may read another's memory (process_vm_readv), which MPI libraries use for large messages: without
// it a message moves only while its sender is inside MPI.
bool single_copy_works();

}  // namespace rehearsal::launch
