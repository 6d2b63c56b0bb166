// Databases of Nsight Systems (nsys export --type sqlite): kernels and copies of every GPU, the calls that launched
// them, and the NVTX ranges that mark steps and passes. Read by the schema that NVIDIA documents ("SQLite Schema
// Reference" of the Nsight Systems User Guide), whose tables and columns differ between versions, so that each is
// looked for first; never tried on a real file.
#pragma once
#include <string>
#include <vector>

#include "traces/trace.hpp"

namespace rehearsal::traces {

std::vector<Trace> read_nsys(const std::string& file, const KernelClasses& classes);

}  // namespace rehearsal::traces
