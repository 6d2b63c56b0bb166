// The backend that performs a graph on GPUs of any vendor (platform.hpp).
//
// A single process serves all ranks on one GPU, as virtual stages: each has a share of the SMs, and copies within
// device memory stand in for links. In a job of several processes each serves one rank on a GPU of its own, with NCCL
// between them.
#pragma once
#include <memory>

#include "backend/backend.hpp"
#include "gpu/platform.hpp"

namespace rehearsal::gpu {

// Needs no GPU before prepare(), which throws MachineError when there is none.
std::unique_ptr<backend::Backend> make_backend(Platform platform);

}  // namespace rehearsal::gpu
