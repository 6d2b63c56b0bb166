#include "cuda/check.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "cuda/driver.hpp"

namespace rehearsal::cuda {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the next launch does not report it again
  throw MachineError(fmt::format("{}: {}", call, cudaGetErrorString(status)));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw MachineError(fmt::format("{}: {}", call, cublasLtGetStatusString(status)));
}

void check(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  const char* text = nullptr;
  DRIVER(cuGetErrorString)(status, &text);
  throw MachineError(fmt::format("{}: {}", call, text ? text : "unknown error"));
}

void* driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion(name, &found, CUDA_VERSION, cudaEnableDefault, &result), name);
  if (result != cudaDriverEntryPointSuccess || found == nullptr)
    throw MachineError(fmt::format("the driver has no {}, which CUDA {} needs here", name, cuda_version(CUDA_VERSION)));
  return found;
}

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

}  // namespace rehearsal::cuda
