// The two ways in which a process performs a graph on a GPU (gpu_backend.hpp).
#pragma once
#include <memory>

#include "backend/backend.hpp"
#include "gpu/platform.hpp"

namespace rehearsal::gpu {

// All ranks on GPU 0. The graph and the platform outlive the session. Throws MachineError: no GPU.
std::unique_ptr<backend::Session> virtual_stages(const graph::TaskGraph& graph, const Platform& platform);

// One rank on the GPU that its number on this host says; the others are processes of the same job
// (launch/rank_environment.hpp). All of them at the same time. run() returns the whole timeline at rank 0 of a job that the
// user started, and an empty one elsewhere: ranks with a parent publish to it. Throws MachineError: too few GPUs,
// another number of ranks, another graph; a peer that failed (launch::PeerFailed).
std::unique_ptr<backend::Session> one_of_many(const graph::TaskGraph& graph, const Platform& platform);

}  // namespace rehearsal::gpu
