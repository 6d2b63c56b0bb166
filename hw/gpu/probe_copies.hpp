// The parts of a probe that move bytes or launch kernels. Each writes its results into `probe`.
#pragma once
#include "gpu/probe_bench.hpp"

namespace rehearsal::gpu {

// Empty kernels: launched by the host, in a stream, as nodes of a recording; and the cost of the events around a task.
void probe_launches(ProbeBench& bench, Probe& probe);
// Copies within the device, to and from pinned host memory, in both directions at once, beside matrix products.
void probe_copies(ProbeBench& bench, const ProbeOptions& options, Probe& probe);
// The `add` kernel in fp32 by the bytes it moves.
void probe_memory_bound(ProbeBench& bench, const ProbeOptions& options, Probe& probe);
// Pairs of kernels of which the second reads what the first has just written.
void probe_pairs(ProbeBench& bench, const ProbeOptions& options, Probe& probe);

// NCCL with one member.
void probe_nccl(ProbeBench& bench, Communicators& communicators, const ProbeOptions& options, Probe& probe);

// Several parts: a message from part 0 to part 1, and rings of all, as virtual stages have them (copy_fabric.hpp).
void probe_virtual_links(ProbeBench& bench, const ProbeOptions& options, Probe& probe);

}  // namespace rehearsal::gpu
