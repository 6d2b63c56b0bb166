// The two ways in which a process performs a graph on a GPU (gpu_backend.hpp).
#pragma once
#include <memory>

#include "backend/backend.hpp"
#include "gpu/platform.hpp"

namespace rehearsal::gpu {

// All ranks on GPU 0. The graph and the platform must outlive the session. Throws MachineError when there is no GPU.
std::unique_ptr<backend::Session> virtual_stages(const graph::TaskGraph& graph, const Platform& platform);

// One rank, on the GPU with its local rank's number; the other ranks are processes of the same job
// (launch/rank_environment.hpp), and all call this at the same time. run() returns the whole timeline at rank 0 of a
// job that the user started, and an empty one elsewhere: ranks with a parent publish to it. Throws MachineError when
// there are too few GPUs, the number of ranks or their graphs differ, or a peer failed.
std::unique_ptr<backend::Session> one_of_many(const graph::TaskGraph& graph, const Platform& platform);

}  // namespace rehearsal::gpu
