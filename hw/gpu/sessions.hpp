// The two ways in which a process performs a graph on a GPU (gpu_backend.hpp).
#pragma once
#include <memory>

#include "backend/backend.hpp"
#include "gpu/platform.hpp"

namespace rehearsal::gpu {

// All ranks on GPU 0. The graph and the platform outlive the session. Throws MachineError: no GPU.
std::unique_ptr<backend::Session> virtual_stages(const graph::TaskGraph& graph, const Platform& platform);

}  // namespace rehearsal::gpu
