// Queues the kernels of room kernels on a stream. Calls return at once and may be recorded into a graph. They throw
// MachineError when the device refuses a launch; errors of a kernel that runs show at a later call.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/units.hpp"
#include "kernels/call.hpp"

namespace rehearsal::cuda {

// All kinds but the three matrix products of linear layers. `multiprocessors`: how many the stream has to itself; it
// decides how many blocks there are where results do not hang on it.
void launch(const kernels::Call& call, cudaStream_t stream, int multiprocessors);
// Puts the kernels of such a call, and those behind the functions below, where a launch finds them (device.hpp, load).
void load(const kernels::Call& call, int multiprocessors);
void load_helpers();

// to += from; fp32 or bf16.
void launch_accumulate(Precision precision, void* to, const void* from, std::int64_t elements, cudaStream_t stream);
// Keeps the stream busy with one thread that watches the clock of the GPU (resolution: 32 ns to 1 us by generation).
void launch_spin(Time duration, cudaStream_t stream);
// *number += more
void launch_count(std::int64_t* number, std::int64_t more, cudaStream_t stream);

}  // namespace rehearsal::cuda
