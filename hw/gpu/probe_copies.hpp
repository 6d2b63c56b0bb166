// The parts of a probe that move bytes or start kernels. Each puts what it measured where it belongs.
#pragma once
#include "gpu/probe_bench.hpp"

namespace rehearsal::gpu {

// Empty kernels: on the host, in a stream, as nodes of a recording; and what the events around a task add.
void probe_launches(ProbeBench& bench, Probe& probe);
// Within the device, between it and pinned memory of the host, both directions at once, beside matrix products.
void probe_copies(ProbeBench& bench, const ProbeOptions& options, Probe& probe);
// The `add` kernel in fp32 by the bytes it moves.
void probe_memory_bound(ProbeBench& bench, const ProbeOptions& options, Probe& probe);
// Kernels one after the other, of which the second reads what the first has written.
void probe_pairs(ProbeBench& bench, const ProbeOptions& options, Probe& probe);

// NCCL with one member.
void probe_nccl(ProbeBench& bench, Communicators& communicators, const ProbeOptions& options, Probe& probe);

// Several parts: a message of part 0 to part 1, and rings of all, as virtual stages have them (copy_fabric.hpp).
void probe_virtual_links(ProbeBench& bench, const ProbeOptions& options, Probe& probe);

}  // namespace rehearsal::gpu
