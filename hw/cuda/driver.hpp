// Functions of the driver, looked up at run time: nothing links libcuda, so the module loads without a GPU.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

namespace rehearsal::cuda {

// The function as this version of cuda.h declares it. Throws MachineError when the driver is older.
void* driver_function(const char* name);
void check(CUresult status, const char* call);

#define DRIVER(function) reinterpret_cast<decltype(&(function))>(::rehearsal::cuda::driver_function(#function))

}  // namespace rehearsal::cuda
