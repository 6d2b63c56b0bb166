// The entry point of librehearsal_cuda.so. It needs no GPU: the backend reports later that there is none.
#include "modules/module.hpp"

#include "cuda/device.hpp"
#include "cuda/environment.hpp"
#include "cuda/nccl.hpp"
#include "gpu/gpu_backend.hpp"

namespace rehearsal::cuda {
namespace {

gpu::Platform platform() {
  return {
      .name = "cuda",
      .devices = devices,
      .open = [](std::size_t index) { return std::make_unique<CudaDevice>(static_cast<int>(index)); },
      .communicators =
          [](gpu::Device& device) { return std::make_unique<NcclCommunicators>(dynamic_cast<CudaDevice&>(device)); }};
}

std::unique_ptr<backend::Backend> make_cuda() {
  prepare_environment();
  return gpu::make_backend(platform());
}

}  // namespace
}  // namespace rehearsal::cuda

extern "C" [[gnu::visibility("default")]] int rehearsal_backend(const char* build_id, rehearsal::backend::Backend** out,
                                                                rehearsal::modules::ModuleError* error) {
  return rehearsal::modules::enter_module(build_id, rehearsal::cuda::make_cuda, out, error);
}
