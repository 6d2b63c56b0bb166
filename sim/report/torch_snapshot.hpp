// Memory as a snapshot of PyTorch's allocator, which pytorch.org/memory_viz draws (torch/utils/viz/MemoryViz.js): every
// rank of the graph is a device, every buffer an allocation whose stack says what it holds and which task made it.
// Addresses are ours, first fit: what a framework's allocator would do with them is `reserved`
// (answer/reserved_memory.hpp).
#pragma once
#include "report/perfetto.hpp"

namespace rehearsal::report {

// A pickle of protocol 2. Of the device's memory.
void write_torch_snapshot(const Result& run, const Sink& sink);

}  // namespace rehearsal::report
