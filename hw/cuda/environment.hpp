// Environment variables that CUDA and NCCL read once, at startup.
#pragma once

namespace rehearsal::cuda {

// Must be called before any use of CUDA, while there is only one thread. Does not override the user's settings.
void prepare_environment();

}  // namespace rehearsal::cuda
