// The entry of librehearsal_cuda.so. It needs no GPU: that there is none is what the backend then says.
#include "backend/module.hpp"

#include "base/error.hpp"
#include "cuda/device.hpp"
#include "cuda/environment.hpp"
#include "cuda/nccl.hpp"
#include "gpu/platform.hpp"

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

// Until graphs are performed on GPUs: says what is missing.
class Unfinished : public backend::Backend {
 public:
  explicit Unfinished(gpu::Platform platform) : platform_(std::move(platform)) {}
  std::string name() const override { return platform_.name; }
  std::string summary() const override { return "Will perform the graph on NVIDIA GPUs, with cuBLAS and NCCL."; }
  std::vector<backend::Capability> capabilities() const override { return {}; }
  std::optional<std::string> why_unavailable() const override {
    try {
      platform_.devices();
      return std::nullopt;
    } catch (const MachineError& why) {
      return why.what();
    }
  }
  std::unique_ptr<backend::Session> prepare(const graph::TaskGraph&, const cluster::Cluster&) override {
    throw MachineError("backend cuda cannot perform a graph yet");
  }

 private:
  gpu::Platform platform_;
};

std::unique_ptr<backend::Backend> make_cuda() {
  prepare_environment();
  return std::make_unique<Unfinished>(platform());
}

}  // namespace
}  // namespace rehearsal::cuda

extern "C" [[gnu::visibility("default")]] int rehearsal_backend(const char* build_id, rehearsal::backend::Backend** out,
                                                                rehearsal::backend::ModuleError* error) {
  return rehearsal::backend::enter_module(build_id, rehearsal::cuda::make_cuda, out, error);
}
