#include "cuda/check.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace rehearsal::cuda {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that is reported must not be found again by the next launch
  throw MachineError(fmt::format("{}: {}", call, cudaGetErrorString(status)));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw MachineError(fmt::format("{}: {}", call, cublasLtGetStatusString(status)));
}

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

}  // namespace rehearsal::cuda
