// Performs a graph on GPUs, whoever makes them (platform.hpp).
//
// One process alone serves all ranks on one GPU, as virtual stages: each has a share of its multiprocessors, and copies
// within its memory stand in for links. A process of a job serves one rank on a GPU of its own, with NCCL between them.
#pragma once
#include <memory>

#include "backend/backend.hpp"
#include "gpu/platform.hpp"

namespace rehearsal::gpu {

// Needs no GPU until prepare(), which throws MachineError where there is none.
std::unique_ptr<backend::Backend> make_backend(Platform platform);

}  // namespace rehearsal::gpu
