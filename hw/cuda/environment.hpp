// Variables that CUDA and NCCL read once, when they start.
#pragma once

namespace rehearsal::cuda {

// To be called before anything of CUDA, by the only thread. What the user has set stays.
void prepare_environment();

}  // namespace rehearsal::cuda
