// Checks calls of CUDA's libraries: a failed one throws MachineError with its name and the library's own words.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

namespace rehearsal::cuda {

void check(cudaError_t status, const char* call);
void check(cublasStatus_t status, const char* call);

// 13010 gives "13.1", as CUDA encodes versions.
std::string cuda_version(int number);

}  // namespace rehearsal::cuda
