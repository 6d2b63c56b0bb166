// Calls of CUDA's libraries: one that fails throws MachineError with the name of the call and the library's own words.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

namespace rehearsal::cuda {

void check(cudaError_t status, const char* call);
void check(cublasStatus_t status, const char* call);

// Of 13010: "13.1", as CUDA counts its versions.
std::string cuda_version(int number);

}  // namespace rehearsal::cuda
