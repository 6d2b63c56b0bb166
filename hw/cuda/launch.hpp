// Queues the kernels of hw/kernels on a stream. Calls return at once and can be recorded into a graph. They throw
// MachineError when the device refuses a launch; errors of a running kernel appear in a later call.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/units.hpp"
#include "kernels/call.hpp"

namespace rehearsal::cuda {

// All kinds but the three matrix products of linear layers. `multiprocessors`: SMs available to the stream; it decides
// the number of blocks where results do not depend on that.
void launch(const kernels::Call& call, cudaStream_t stream, int multiprocessors);
// Loads the kernels of such a call, and those of the functions below, so that a launch finds them (device.hpp, load).
void load(const kernels::Call& call, int multiprocessors);
void load_helpers();

// to += from; fp32 or bf16.
void launch_accumulate(Precision precision, void* to, const void* from, std::int64_t elements, cudaStream_t stream);
// Keeps the stream busy with one thread that polls the clock of the GPU (resolution: 32 ns to 1 us by generation).
void launch_spin(Time duration, cudaStream_t stream);
// *number += more
void launch_count(std::int64_t* number, std::int64_t more, cudaStream_t stream);

}  // namespace rehearsal::cuda
