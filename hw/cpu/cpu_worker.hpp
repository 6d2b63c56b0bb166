// Real compute of one rank on the CPU: its buffers with their high-water mark, its weights, its data.
#pragma once
#include <memory>

#include "cpu/kernels.hpp"
#include "dispatch/worker.hpp"

namespace rehearsal::cpu {

// Allocates the resident buffers and initialises the parameters. Throws MachineError when out of memory, then and
// later.
std::unique_ptr<dispatch::Worker> make_worker(const graph::TaskGraph& graph, RankId rank,
                                              const backend::RunOptions& options, GemmFunction gemm = cpu::gemm);

}  // namespace rehearsal::cpu
