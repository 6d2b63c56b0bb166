#include "base/error.hpp"
#include "cuda/device.hpp"
#include "cuda/environment.hpp"
#include "cuda/nccl.hpp"
#include "machine.hpp"

namespace rehearsal::test {

bool is_real() { return true; }

std::optional<std::string> why_no_gpu() {
  cuda::prepare_environment();
  try {
    cuda::devices();
  } catch (const MachineError& error) {
    return error.what();
  }
  return std::nullopt;
}

Machine::Machine() {
  auto device = std::make_unique<cuda::CudaDevice>(0);
  communicators_ = std::make_unique<cuda::NcclCommunicators>(*device);
  device_ = std::move(device);
}

Machine::~Machine() { communicators_.reset(); }

}  // namespace rehearsal::test
